package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestSecretsAreRedacted(t *testing.T) {
	for _, test := range []struct{ text, secret, kept string }{
		{"a\n-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\nb", "MHcCAQEE", "\nb"},
		{"cut -----BEGIN PRIVATE KEY-----\nMHcCAQEE", "MHcCAQEE", "cut "},
		{"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "", "MIIB"},
		{"token=eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJl.c2lnbmF0dXJl end", "c2lnbmF0dXJl", " end"},
		{"Authorization: Bearer abcdefgh12345678 end", "abcdefgh12345678", " end"},
		{`{"password":"hunter22","name":"x"}`, "hunter22", `"name":"x"`},
		{"db_password: hunter22\nnext: y", "hunter22", "next: y"},
		{"https://user:hunter22@host/path", "hunter22", "@host/path"},
		{"port demo_token-0 bound to chassis n1", "", "demo_token-0 bound"},
	} {
		got := string(redact([]byte(test.text)))
		leaked := test.secret != "" && (strings.Contains(got, test.secret) || !strings.Contains(got, redacted))
		if leaked || !strings.Contains(got, test.kept) {
			t.Errorf("%q became %q", test.text, got)
		}
	}
}

func TestVariablesAreRedacted(t *testing.T) {
	pod := parse(t, `{kind: Pod, metadata: {name: p, managedFields: [{manager: m}],
 annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", a: b}},
 spec: {containers: [{name: c, env: [{name: DB_PASSWORD, value: hunter22}, {name: NODE, value: n1}]}]}}`)
	strip(pod)
	text, err := pod.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]bool{
		"hunter22": false, "managedFields": false, "last-applied": false, `"n1"`: true, redacted: true, `"a":"b"`: true,
	} {
		if strings.Contains(string(text), part) != want {
			t.Errorf("%s present: %v; %s", part, !want, text)
		}
	}
}

func TestArchiveNamesWhatIsMissing(t *testing.T) {
	var out bytes.Buffer
	a := newArchive(&out, "b", time.Now())
	a.add("drift.json", []byte(`{"token":"hunter22"}`), nil)
	a.add("check.json", nil, errors.New("no operator leads"))
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for r := tar.NewReader(zip); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		text, err2 := io.ReadAll(r)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		found[header.Name] = string(text)
	}
	if len(found) != 2 || strings.Contains(found["b/drift.json"], "hunter22") ||
		found["b/errors.txt"] != "check.json: no operator leads\n" {
		t.Errorf("the archive has %v", found)
	}
}

// A bundle contains no kind that holds secrets.
func TestBundleHasNoSecrets(t *testing.T) {
	for _, kind := range objectKinds {
		if kind.kind == "Secret" || kind.kind == "ConfigMap" {
			t.Errorf("the bundle lists %s", kind.kind)
		}
	}
}
