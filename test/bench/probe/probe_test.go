package probe

import (
	"os"
	"testing"
	"time"
)

func TestStat(t *testing.T) {
	got, err := parseStat([]byte("77 (a) name) S 1 77 77 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 100 1 2\n"))
	if err != nil || got != 3*time.Second {
		t.Errorf("got %s, %v; want 3s", got, err)
	}
	if _, err := parseStat([]byte("77 (x) S 1")); err == nil {
		t.Error("half a line is accepted")
	}
	if used, err := CPU(os.Getpid()); err != nil || used < 0 {
		t.Errorf("this process: %s, %v", used, err)
	}
}

func TestPeak(t *testing.T) {
	if got, err := parseMemory("Name:\tx\nVmHWM:\t    2000 kB\nVmRSS:\t 1 kB\n", "VmHWM:"); err != nil || got != 2.048 {
		t.Errorf("got %v, %v; want 2.048", got, err)
	}
	if got, err := Peak(os.Getpid()); err != nil || got < 1 {
		t.Errorf("this process: %v MB, %v", got, err)
	}
}
