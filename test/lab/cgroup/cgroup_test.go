package cgroup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMounts(t *testing.T) {
	const hybrid = `proc /proc proc rw 0 0
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
`
	got, err := parseMounts(strings.NewReader(hybrid))
	if err != nil {
		t.Fatal(err)
	}
	want := []Hierarchy{
		{Mount: "/sys/fs/cgroup/cpuset", Controllers: []string{"rw", "relatime", "cpuset"}},
		{Mount: "/sys/fs/cgroup/unified", V2: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if Unified(got) {
		t.Error("a hybrid host counts as unified")
	}
}
