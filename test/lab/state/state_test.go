package state

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestStateSurvivesItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s, err := Load(path)
	if err != nil || !s.Empty() {
		t.Fatalf("Load of nothing: %+v, %v", s, err)
	}
	for _, err := range []error{
		s.AddNetns("a"), s.AddCgroups([]string{"/c"}), s.AddProcess(Process{"n1", 7, 9}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	again, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, again, cmpopts.IgnoreUnexported(State{})); diff != "" {
		t.Error(diff)
	}
}

func TestParseStartTimeWithAHostileCommand(t *testing.T) {
	stat := "12 (a) b) R 1 12 12 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 4711 1 2 3"
	if got, err := parseStartTime([]byte(stat)); err != nil || got != 4711 {
		t.Errorf("start time = %d, %v; want 4711", got, err)
	}
}

func TestKillSparesAnotherProcessWithTheSamePID(t *testing.T) {
	me, err := NewProcess("me", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	me.StartTime++
	if err := me.Kill(time.Second); err != nil {
		t.Error(err)
	}
}

func TestKillAwaitsTheEnd(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := NewProcess("sleep", cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended before the kill")
	}
}
