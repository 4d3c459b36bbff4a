package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/rebuild"
	"github.com/weft-network/weft/pkg/process/admin"
)

// Programs iterate over the lists of an answer. So an empty list is [] in every answer of every command, whatever the
// operator sends.
func TestNoListInAnAnswerIsNull(t *testing.T) {
	failed, _ := rebuild.Run(context.Background(), rebuild.Options{RunDir: t.TempDir() + "/none"}, nil)
	for name, answer := range map[string]any{
		"plan, drift": admin.Changes{}, "check": admin.Violations{}, "history": admin.History{},
		"status":            statusOf(&networkv1alpha1.ClusterNetwork{}, nil, ""),
		"status of nothing": statusReport{}, "db rebuild": failed,
		"ip list": addressList{}, "ip history": addressHistory{}, "ip leaks": leaksAnswer{}, "ip release": releaseAnswer{},
		"ip import": importAnswer{},
	} {
		var out bytes.Buffer
		if err := formatJSON.write(&out, answer, nil); err != nil {
			t.Fatal(err)
		}
		var read any
		err := json.Unmarshal(out.Bytes(), &read)
		if text := out.String(); err != nil || strings.Contains(text, "null") || !strings.Contains(text, "[]") {
			t.Errorf("%s: %s (%v)", name, text, err)
		}
	}
}

// An older operator answers null; the command prints an empty list instead.
func TestNullOfTheOperatorIsAnEmptyList(t *testing.T) {
	for command, want := range map[string]string{
		"drift": "{\n  \"changes\": []\n}\n",
		"check": "{\n  \"checked\": [],\n  \"violations\": []\n}\n",
	} {
		server := &apiServer{T: t, answer: `{"changes": null, "violations": null}`}
		if code, out, errs := server.run(command, "-o", "json"); code != exitOK || out != want || errs != "" {
			t.Errorf("%s: exit code %d, %q, %q", command, code, out, errs)
		}
	}
}
