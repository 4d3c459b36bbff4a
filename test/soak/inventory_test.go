package soak

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyWhatIsMoreThanBeforeHasLeaked(t *testing.T) {
	before := Inventory{{"links", 3}, {"ports", 2}, {"mounts", 4}}
	after := Inventory{{"links", 3}, {"ports", 1}, {"mounts", 6}, {"files", 1}}
	want := []string{"mounts: 6, before 4", "files: 1, before 0"}
	if diff := cmp.Diff(want, leaked(before, after)); diff != "" {
		t.Errorf("leaked (-want +have):\n%s", diff)
	}
}

func TestLeastHasTheSmallerCountOfEach(t *testing.T) {
	first, second := Inventory{{"a", 3}, {"b", 1}}, Inventory{{"a", 2}, {"b", 5}}
	if diff := cmp.Diff(Inventory{{"a", 2}, {"b", 1}}, least(first, second)); diff != "" {
		t.Errorf("least (-want +have):\n%s", diff)
	}
	if diff := cmp.Diff(first, least(nil, first)); diff != "" {
		t.Errorf("least of one (-want +have):\n%s", diff)
	}
}

func TestAFailureHasItsReasonOnlyWhileAnAgentIsMissing(t *testing.T) {
	var d disturbances
	early := time.Now()
	if d.during(early) {
		t.Error("a failure before the first kill counts as explained")
	}
	end := d.begin()
	if !d.during(time.Now()) {
		t.Error("a failure while the agent is missing counts as unexplained")
	}
	end()
	if !d.during(early) {
		t.Error("a failure that began while the agent was missing counts as unexplained")
	}
	if d.during(time.Now()) {
		t.Error("a failure after the next agent serves counts as explained")
	}
}
