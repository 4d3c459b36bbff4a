package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// dbLog reads the log of an ovsdb-server from the last read position.
type dbLog struct {
	path   string
	offset int64
}

// changes counts the effects of a part of a log.
type changes struct {
	transactions int // that change a table other than NB_Global, so neither fences nor heartbeats
	rows         int // in other tables than NB_Global
}

var errCompacted = errors.New("the database's log was compacted: its previous records are lost")

// next reads to the end of the log.
func (l *dbLog) next() (changes, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return changes{}, err
	}
	defer file.Close()
	if end, err := file.Seek(0, io.SeekEnd); err != nil || end < l.offset {
		return changes{}, errors.Join(err, errCompacted)
	}
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return changes{}, err
	}
	found, read, err := countRecords(file)
	l.offset += read
	return found, err
}

// countRecords reads whole records of a log and returns how many bytes they had. A record is a line "OVSDB JSON
// <length> <hash>" (ovsdb(5); with CLUSTER for JSON in a raft cluster's log) and the text. A record that is still
// being written is left for the next call.
func countRecords(log io.Reader) (found changes, read int64, err error) {
	in := bufio.NewReaderSize(log, 1<<20)
	for {
		head, err := in.ReadBytes('\n')
		if err != nil {
			return found, read, ignoreEnd(err)
		}
		var kind string
		var length int64
		if _, err := fmt.Sscanf(string(head), "OVSDB %s %d", &kind, &length); err != nil || kind != "JSON" && kind != "CLUSTER" {
			return found, read, fmt.Errorf("log at %d: %q is not a database record", read, bytes.TrimSpace(head))
		}
		text := make([]byte, length)
		if _, err := io.ReadFull(in, text); err != nil {
			return found, read, ignoreEnd(err)
		}
		count := found.count
		if kind == "CLUSTER" {
			count = found.countEntry
		}
		if err := count(text); err != nil {
			return found, read, err
		}
		read += int64(len(head)) + length
	}
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// count adds one record: a transaction, or the schema.
func (c *changes) count(text []byte) error {
	var record map[string]json.RawMessage
	if err := json.Unmarshal(text, &record); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if record["cksum"] != nil && record["tables"] != nil { // the schema
		return nil
	}
	n := 0
	for table, text := range record {
		if table[0] == '_' || table == "NB_Global" {
			continue
		}
		var rows map[string]json.RawMessage
		if err := json.Unmarshal(text, &rows); err != nil {
			return fmt.Errorf("record, table %s: %w", table, err)
		}
		n += len(rows)
	}
	if c.rows += n; n > 0 {
		c.transactions++
	}
	return nil
}

// countEntry adds one record of a raft log. Besides entries there are records for terms, votes and commits. The data
// of an entry is a schema or null, followed by the same record as in a log without a cluster.
func (c *changes) countEntry(text []byte) error {
	var entry struct{ Data []json.RawMessage }
	if err := json.Unmarshal(text, &entry); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if len(entry.Data) < 2 || string(entry.Data[0]) != "null" {
		return nil
	}
	return c.count(entry.Data[1])
}
