package tools

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// progressEvery is the time between two lines about builds that go on: the first build of Kubernetes takes minutes.
const progressEvery = 15 * time.Second

// progress prints what becomes of several builds and which are left.
type progress struct {
	mu   sync.Mutex
	out  io.Writer
	left []*buildLog // in the order of the programs
}

func newProgress(out io.Writer, programs []Program) *progress {
	p := &progress{out: out}
	for _, program := range programs {
		p.left = append(p.left, &buildLog{name: program.Name})
	}
	return p
}

// follow prints what is left now and then, until the returned function is called.
func (p *progress) follow() (stop func()) {
	ended := make(chan struct{})
	var follower sync.WaitGroup
	follower.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.print()
			case <-ended:
				return
			}
		}
	})
	return func() {
		close(ended)
		follower.Wait()
	}
}

func (p *progress) print() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var texts []string
	for _, log := range p.left {
		texts = append(texts, log.String())
	}
	if len(texts) > 0 {
		fmt.Fprintf(p.out, "left: %s\n", strings.Join(texts, ", "))
	}
}

// build runs one build and prints how long it took.
func (p *progress) build(log *buildLog, build func() (made bool, err error)) error {
	var line strings.Builder
	if err := timed(&line, log.name, build); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = slices.DeleteFunc(p.left, func(l *buildLog) bool { return l == log })
	_, err := io.WriteString(p.out, line.String())
	return err
}
