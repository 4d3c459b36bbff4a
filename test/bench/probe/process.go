package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc (USER_HZ, which is 100 on every architecture that Kubernetes supports).
const tick = 10 * time.Millisecond

// CPU returns the CPU time that a process has used, including its ended threads.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(text)
}

// parseStat parses utime and stime (proc_pid_stat(5), fields 14 and 15; the name in field 2 may contain any
// character).
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

// Exact returns the CPU time of a process's present threads without the rounding of CPU (CONFIG_SCHED_INFO; the
// first field of each thread's schedstat, in nanoseconds).
func Exact(pid int) (time.Duration, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err == nil && len(threads) == 0 {
		err = fmt.Errorf("process %d has no schedstat", pid)
	}
	var sum time.Duration
	for _, thread := range threads {
		text, failed := os.ReadFile(thread)
		if failed != nil {
			continue // it has ended
		}
		word, _, _ := strings.Cut(string(text), " ")
		ran, failed := strconv.ParseInt(word, 10, 64)
		sum, err = sum+time.Duration(ran), errors.Join(err, failed)
	}
	return sum, err
}

// Peak returns the largest resident memory of a process so far, in MB.
func Peak(pid int) (float64, error) { return memory(pid, "VmHWM:") }

// Resident returns the resident memory of a process, in MB.
func Resident(pid int) (float64, error) { return memory(pid, "VmRSS:") }

func memory(pid int, field string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parseMemory(string(text), field)
}

func parseMemory(status, field string) (float64, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("status has no %s", field)
}

// LoadAverage returns how many threads were running or runnable, over the last minute.
func LoadAverage() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	word, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(word, 64)
}
