package main

import (
	"strings"
	"testing"
)

// The API server refuses a lifetime under ten minutes, with a message that does not name the flag.
func TestLifetimeThatTheAPIServerRefuses(t *testing.T) {
	for _, lifetime := range []string{"-1h0m0s", "0s", "9m59s"} {
		err := identityCommand([]string{"--node-name=n1", "--identity-dir=" + t.TempDir(), "--lifetime=" + lifetime})
		if err == nil || !strings.Contains(err.Error(), "--lifetime "+lifetime+" is too short: want at least 10m0s") {
			t.Errorf("--lifetime=%s: %v", lifetime, err)
		}
	}
}
