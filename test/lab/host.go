package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weft-network/weft/test/lab/cgroup"
	"github.com/weft-network/weft/test/lab/state"
)

// kubeletSysctls are kernel parameters of the whole host that kubelet changes when it starts.
var kubeletSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// recordSysctls keeps the values for Down.
func recordSysctls(s *state.State) error {
	before := map[string]string{}
	for _, key := range kubeletSysctls {
		text, err := os.ReadFile(filepath.Join("/proc/sys", key))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		before[key] = strings.TrimSpace(string(text))
	}
	return s.SetSysctls(before)
}

func restoreSysctls(before map[string]string) error {
	var failed error
	for key, value := range before {
		if err := os.WriteFile(filepath.Join("/proc/sys", key), []byte(value), 0); err != nil {
			failed = errors.Join(failed, fmt.Errorf("restore %s: %w", key, err))
		}
	}
	return failed
}

// cgroupOf is the group in which kubelet puts a node's pods.
func (c *Cluster) cgroupOf(machine string) string {
	return filepath.Join("/weft-lab", c.Name, machine)
}

func (c *Cluster) makeCgroups(s *state.State, nodes []Machine) error {
	all, err := cgroup.Hierarchies()
	if err != nil {
		return err
	}
	if err := s.AddCgroups(cgroup.Dirs(all, filepath.Join("/weft-lab", c.Name))); err != nil {
		return err
	}
	for _, n := range nodes {
		if err := cgroup.Make(all, c.cgroupOf(n.Name)); err != nil {
			return err
		}
	}
	return nil
}

func removeCgroups(dirs []string) error {
	var failed error
	for _, dir := range dirs {
		failed = errors.Join(failed, cgroup.Remove(dir, 10*time.Second))
		_ = os.Remove(filepath.Dir(dir)) // stays while another lab is in it
	}
	return failed
}

// mayRaiseOOMScore tells whether this process has CAP_SYS_RESOURCE; without it runc cannot give containers the scores
// that kubelet wants.
func mayRaiseOOMScore() bool {
	const capSysResource = 24 // linux/capability.h
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(status), "CapEff:")
	var effective uint64
	if _, err := fmt.Sscanf(after, "%x", &effective); err != nil {
		return false
	}
	return effective&(1<<capSysResource) != 0
}
