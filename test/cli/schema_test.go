package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checkSchema validates the output of a command with "-o json" by the command's schema in docs/user/schemas.
func checkSchema(t *testing.T, args []string, out []byte) {
	t.Helper()
	if at := slices.Index(args, "-o"); at < 0 || at+1 >= len(args) || args[at+1] != "json" || len(out) == 0 {
		return
	}
	name := args[0]
	if name == "ip" || name == "db" || name == "migrate" {
		name += "-" + args[1]
	}
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("../../docs/user/schemas", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	decoder.UseNumber()
	for {
		var value any
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("weft %v: %v\n%s", args, err, out)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("weft %v: %v\n%s", args, err, out)
		}
	}
}
