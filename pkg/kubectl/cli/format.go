package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// format is the format of an answer: text or JSON.
type format string

const (
	formatText format = "text"
	formatJSON format = "json"
)

func (f *format) bind(c *cobra.Command) {
	c.Flags().StringVarP((*string)(f), "output", "o", string(formatText), "text or json")
	completeWords(c, "output", string(formatText), string(formatJSON))
}

func (f format) check() error {
	if f != formatText && f != formatJSON {
		return fmt.Errorf("invalid output %q: want text or json", string(f))
	}
	return nil
}

// write writes the answer as JSON, or the result of text.
func (f format) write(out io.Writer, answer any, text func() string) error {
	if f == formatJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(answer)
	}
	_, err := io.WriteString(out, text())
	return err
}
