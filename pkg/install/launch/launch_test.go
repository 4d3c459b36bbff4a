package launch

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/test/lab/tools"
)

var update = flag.Bool("update", false, "write testdata")

// ovn puts the cached programs on the search path.
func ovn(t *testing.T) tools.Cache {
	t.Helper()
	cache, err := tools.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cache.OVN("ovsdb-tool")); err != nil {
		t.Fatalf("ovsdb-tool is absent: run `make tools` first (%v)", err)
	}
	t.Setenv("PATH", filepath.Dir(cache.OVN("ovsdb-tool"))+":"+os.Getenv("PATH"))
	return cache
}

func query(t *testing.T, d Database, transaction string) string {
	t.Helper()
	out, err := ovsdbTool(t.Context(), "query", d.File, transaction)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheSwitchDatabaseIsMadeOnceAndKept(t *testing.T) {
	cache := ovn(t)
	program, err := SwitchDatabase("netdev")
	if err != nil {
		t.Fatal(err)
	}
	d := *program.Database
	d.File, d.Schema = filepath.Join(t.TempDir(), "conf.db"), cache.Schema("vswitch")
	const readRow = `["Open_vSwitch",{"op":"select","table":"Open_vSwitch","where":[],"columns":["_uuid","external_ids"]}]`
	if err := os.WriteFile(d.File+".new", []byte("left behind by a process that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	made := query(t, d, readRow)
	if !strings.Contains(made, `["ovn-bridge-datapath-type","netdev"]`) {
		t.Errorf("made: %s", made)
	}
	if err := d.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept := query(t, d, readRow); kept != made {
		t.Errorf("after the second start: %s, after the first: %s", kept, made)
	}
}

func TestADatabaseOfAnotherSchemaIsConvertedWithItsRows(t *testing.T) {
	cache := ovn(t)
	current, err := os.ReadFile(cache.Schema("ovn-nb"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	older := filepath.Join(dir, "older.ovsschema")
	text := bytes.Replace(current, []byte(`"external_ids"`), []byte(`"weft_no_more": {"type": "string"}, "external_ids"`), 1)
	if bytes.Equal(text, current) {
		t.Fatal("the schema has no external_ids")
	}
	if err := os.WriteFile(older, text, 0o600); err != nil {
		t.Fatal(err)
	}
	d := Database{File: filepath.Join(dir, "nb.db"), Schema: older,
		Insert: `["OVN_Northbound",{"op":"insert","table":"Logical_Switch","row":{"name":"kept"}}]`}
	if err := d.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Schema = cache.Schema("ovn-nb")
	if err := d.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := query(t, d, `["OVN_Northbound",{"op":"select","table":"Logical_Switch","where":[],"columns":["name"]}]`)
	if !strings.Contains(rows, "kept") {
		t.Errorf("rows: %s", rows)
	}
	if answer, err := ovsdbTool(t.Context(), "needs-conversion", d.File, d.Schema); err != nil || strings.TrimSpace(answer) != "no" {
		t.Errorf("needs-conversion: %q, %v", answer, err)
	}
}

func TestABrokenDatabaseIsReportedAndLeftAlone(t *testing.T) {
	cache := ovn(t)
	d := Database{File: filepath.Join(t.TempDir(), "nb.db"), Schema: cache.Schema("ovn-nb")}
	if err := os.WriteFile(d.File, []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Program{Database: &d}).Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), d.File) {
		t.Errorf("error %v, want an error with the file's name", err)
	}
	if text, _ := os.ReadFile(d.File); string(text) != "no database" {
		t.Errorf("the file is now %q", text)
	}
}

func TestAProgramWaitsForItsKeyPair(t *testing.T) {
	dir := t.TempDir()
	tls := ChassisTLS(filepath.Join(dir, "identity"), filepath.Join(dir, "ca.crt"))
	if err := os.Mkdir(filepath.Join(dir, "identity"), 0o700); err != nil {
		t.Fatal(err)
	}
	program := Program{Await: Controller(tls).Await}
	prepared := make(chan error, 1)
	go func() { prepared <- program.Prepare(t.Context()) }()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, file := range []string{tls.CACert, tls.PrivateKey} {
		if err := program.Prepare(ended); !errors.Is(err, context.Canceled) {
			t.Fatalf("the program does not wait for %s: %v", file, err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-prepared:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the program still waits although all files exist")
	}
	if err := (Program{Await: []string{filepath.Join(dir, "never")}}).Prepare(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after a signal: %v", err)
	}
}

// TestWhoMayWriteTheDatabases compares the listeners with golden files: network listeners require certificates, and
// only the northbound listener gives full write access.
func TestWhoMayWriteTheDatabases(t *testing.T) {
	tls := TLSIn("/etc/weft/tls")
	relay := func(_ string, tls TLS) (Program, error) { return Relay("ssl:192.0.2.1:16643,ssl:192.0.2.2:16643", tls) }
	for _, c := range []struct {
		name    string
		program func(string, TLS) (Program, error)
	}{{"nb_db", Northbound}, {"sb_db", Southbound}, {"sb_relay", relay}} {
		p, err := c.program("/var/lib/ovn", tls)
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", strings.TrimSuffix(c.name, "_db")+".golden")
		have := p.String() + "\n" + p.Files["/run/ovn/ovn"+c.name+".json"] + "\n"
		if *update {
			if err := os.WriteFile(golden, []byte(have), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || have != string(want) {
			t.Errorf("%s (%v): have\n%s", golden, err, have)
		}
	}
}

// The environment chooses what the programs log.
func TestLogLevel(t *testing.T) {
	for level, want := range map[string]string{
		"": "-vconsole:info ike = 1", "Info": "-vconsole:info ike = 1", "loud": "-vconsole:info ike = 1",
		"Error": "-vconsole:err ike = 0", "Warning": "-vconsole:warn ike = 0", "Debug": "-vconsole:dbg ike = 2",
	} {
		t.Setenv(LogLevel, level)
		words := strings.Fields(want)
		for _, p := range []Program{Northd(), ClusterNorthd(), Switch(), Controller(TLS{})} {
			if !slices.Contains(p.Argv, words[0]) {
				t.Errorf("with level %q: %v, want %s", level, p.Argv, words[0])
			}
		}
		for _, text := range IKE(t.TempDir()).Files {
			if !strings.Contains(text, strings.Join(words[1:], " ")+"\n") {
				t.Errorf("with level %q, charon's configuration is %s", level, text)
			}
		}
	}
}
