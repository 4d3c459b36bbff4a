package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// buildLog reads what one `go build -v` prints: it counts the packages, and keeps everything else for an error.
type buildLog struct {
	name string

	mu       sync.Mutex
	total    int // packages of the program, 0 before the build begins
	compiled int // which were not in Go's cache
	partial  []byte
	rest     bytes.Buffer
}

// String is "kubernetes", or "kubernetes (812 of at most 1934 packages compiled)" during its build.
func (l *buildLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total == 0 {
		return l.name
	}
	return fmt.Sprintf("%s (%d of at most %d packages compiled)", l.name, l.compiled, l.total)
}

// Write takes output of the go command.
func (l *buildLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, text...)
	for {
		line, after, whole := bytes.Cut(l.partial, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		l.take(string(line))
		l.partial = slices.Clone(after)
	}
}

// take counts a package's line, which has neither spaces nor colons, and keeps other lines.
func (l *buildLog) take(line string) {
	if line != "" && !strings.ContainsAny(line, " :\t") {
		l.compiled++
		return
	}
	l.rest.WriteString(line + "\n")
}

func (l *buildLog) begin(total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total = total
}

// run runs the go command in a program's module. Its error has the command's output without the packages.
func (l *buildLog) run(ctx context.Context, dir string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), l, l
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w\n%s%s", strings.Join(args, " "), err, l.rest.String(), l.partial)
	}
	return nil
}

// count returns how many packages a program has, which downloads their modules.
func count(ctx context.Context, dir string, env []string, p Program) (packages int, err error) {
	cmd := exec.CommandContext(ctx, "go", p.listArgs()...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w\n%s", err, exit.Stderr)
	}
	return bytes.Count(out, []byte("\n")), err
}
