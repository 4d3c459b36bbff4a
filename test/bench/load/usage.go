package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc (USER_HZ, 100 on every architecture that Kubernetes knows).
const tick = 10 * time.Millisecond

// cpuOf is the CPU time that a process has used, with its threads that have ended.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(text)
}

// parseStat reads utime and stime (proc_pid_stat(5), fields 14 and 15; the name in field 2 may hold anything).
func parseStat(text []byte) (time.Duration, error) {
	_, rest, _ := bytes.Cut(text[bytes.LastIndexByte(text, ')')+1:], []byte(" "))
	fields := strings.Fields(string(rest)) // from field 3
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat has %d fields", len(fields)+2)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, err
}

// peakOf is the greatest resident memory of a process so far, in MB.
func peakOf(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parsePeak(string(text))
}

func parsePeak(status string) (float64, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("status has no VmHWM")
}
