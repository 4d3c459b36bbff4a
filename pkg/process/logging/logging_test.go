package logging

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/weft-network/weft/pkg/process/options"
)

// The flags come before the environment, and choose what is written and how.
func TestOptions(t *testing.T) {
	const json, text = `"msg":"happens"`, "\thappens\t"
	for name, c := range map[string]struct {
		args          []string
		level, format string // of the environment
		info, debug   bool
		form, err     string
	}{
		"the defaults":         {info: true, form: json},
		"the environment":      {level: "Debug", format: "Text", info: true, debug: true, form: text},
		"the flags come first": {args: []string{"--log-level=error", "--log-format=json"}, level: "Debug", format: "Text"},
		"warning":              {level: "Warning"},
		"a wrong level":        {level: "loud", err: `--log-level: "loud" is none of error, warning, info and debug`},
		"a wrong format":       {args: []string{"--log-format=xml"}, err: `--log-format: "xml" is neither json nor text`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(options.LogLevelVariable, c.level)
			t.Setenv(options.LogFormatVariable, c.format)
			o, err := options.ParseOperator(append(c.args, "--nb=tcp:192.0.2.1:6641"))
			if err != nil {
				t.Fatal(err)
			}
			opts, err := parse(o.Log)
			if err != nil || c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			var out bytes.Buffer
			log := zap.New(append(opts, zap.WriteTo(&out))...)
			log.V(1).Info("details", "key", 1)
			debug := out.Len() > 0
			out.Reset()
			log.Info("happens", "key", 1)
			if year := time.Now().Format("2006-"); c.info && !strings.Contains(out.String(), year) {
				t.Errorf("the time is no date: %s", out.String())
			}
			if info := out.Len() > 0; info != c.info || debug != c.debug || !strings.Contains(out.String(), c.form) {
				t.Errorf("info %t, debug %t: %s", info, debug, out.String())
			}
		})
	}
}
