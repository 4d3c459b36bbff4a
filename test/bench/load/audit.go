package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// auditLog reads the API server's audit log from the last read position.
type auditLog struct {
	path   string
	offset int64
}

// calls counts the calls of the API server, without watches and leases.
type calls struct {
	reads, writes int
	what          map[string]int // number of writes by kind, such as "patch nodenetworks"
}

func (l *auditLog) next() (found calls, err error) {
	found.what = map[string]int{}
	file, err := os.Open(l.path)
	if err != nil {
		if os.IsNotExist(err) {
			return found, nil // no calls yet
		}
		return found, err
	}
	defer file.Close()
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return found, err
	}
	in := bufio.NewReader(file)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return found, ignoreEnd(err)
		}
		l.offset += int64(len(line))
		if err := found.count(bytes.TrimSpace(line)); err != nil {
			return found, fmt.Errorf("audit log: %w", err)
		}
	}
}

func (c *calls) count(line []byte) error {
	var event struct {
		Verb      string
		ObjectRef struct{ Resource string }
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return err
	}
	switch {
	case event.ObjectRef.Resource == "leases", event.Verb == "watch":
	case event.Verb == "get", event.Verb == "list":
		c.reads++
	default:
		c.writes++
		c.what[event.Verb+" "+event.ObjectRef.Resource]++
	}
	return nil
}
