package load

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func record(text string) string {
	return fmt.Sprintf("OVSDB JSON %d 0123456789\n%s", len(text), text)
}

func TestLogIsReadRecordByRecord(t *testing.T) {
	log := &dbLog{path: filepath.Join(t.TempDir(), "db")}
	schema := record(`{"cksum":"1 2","name":"OVN_Northbound","tables":{"NB_Global":{}},"version":"7.11.0"}`)
	pods := record(`{"_date":1,"Logical_Switch_Port":{"u1":{},"u2":{}},"Logical_Switch":{"u3":{"ports":1}}}`)
	beat := record(`{"_date":1,"_comment":"weft-heartbeat","NB_Global":{"u":{"external_ids":1}}}`)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(log.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(transactions, rows int) {
		t.Helper()
		if got, err := log.next(); err != nil || got != (changes{transactions, rows}) {
			t.Errorf("got %+v, %v; want %d transactions, %d rows", got, err, transactions, rows)
		}
	}
	write(schema + pods + beat + pods[:len(pods)-7])
	expect(1, 3)
	expect(0, 0)
	write(schema + pods + beat + pods + pods)
	expect(2, 6)
	write(schema)
	if _, err := log.next(); err == nil || !strings.Contains(err.Error(), "compacted") {
		t.Errorf("a compacted log: %v", err)
	}
}

func TestRaftLogIsReadEntryByEntry(t *testing.T) {
	log := &dbLog{path: filepath.Join(t.TempDir(), "db")}
	text := ""
	for _, line := range []string{`{"cluster_id":"c","prev_data":[{"name":"OVN_Northbound"},{}],"prev_term":1}`, `{"term":2,"index":3}`,
		`{"eid":"a","data":[{"name":"OVN_Northbound","tables":{}},{"Logical_Switch":{"u":{}}}],"term":2,"index":3}`, `{"commit_index":3}`,
		`{"eid":"b","data":[null,{"_date":1,"Logical_Switch_Port":{"u1":{},"u2":{}},"NB_Global":{"u":{}}}],"term":2,"index":4}`,
		`{"commit_index":4}`,
		`{"eid":"c","data":[null,{"NB_Global":{"u":{"external_ids":1}}}],"term":2,"index":5}`, `{"vote":"v","term":3}`} {
		text += fmt.Sprintf("OVSDB CLUSTER %d 0123456789\n%s", len(line)+1, line+"\n")
	}
	if err := os.WriteFile(log.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := log.next(); err != nil || got != (changes{1, 2}) {
		t.Errorf("got %+v, %v; want 1 transaction, 2 rows", got, err)
	}
}

func TestCallsAreCounted(t *testing.T) {
	log := &auditLog{path: filepath.Join(t.TempDir(), "audit")}
	if got, err := log.next(); err != nil || got.reads+got.writes != 0 {
		t.Errorf("no log: %+v, %v", got, err)
	}
	text := ""
	for _, call := range []string{"list pods", "watch pods", "get nodes", "patch nodenetworks", "update leases",
		"get leases", "create events"} {
		verb, resource, _ := strings.Cut(call, " ")
		text += fmt.Sprintf(`{"kind":"Event","verb":%q,"objectRef":{"resource":%q}}`+"\n", verb, resource)
	}
	if err := os.WriteFile(log.path, []byte(text+`{"kind":"Ev`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := log.next(); err != nil || got.reads != 2 || got.writes != 2 || got.what["patch nodenetworks"] != 1 {
		t.Errorf("got %+v, %v; want 2 reads and 2 writes", got, err)
	}
}
