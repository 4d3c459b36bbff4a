package tools

import (
	"strings"
	"testing"
)

func TestProgressNamesWhatIsLeft(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, []Program{{Name: "etcd"}, {Name: "kubernetes"}, {Name: "runc"}})
	etcd, kubernetes := p.left[0], p.left[1]
	kubernetes.begin(10)
	for _, part := range []string{"go: downloading x v1\nfmt\nnet/", "http\nk8s.io/api/core/v1\n# k8s.io/api\n"} {
		if _, err := kubernetes.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.build(etcd, func() (bool, error) { return true, nil }); err != nil {
		t.Fatal(err)
	}
	p.print()
	made, left, _ := strings.Cut(out.String(), "\n")
	if !strings.HasPrefix(made, "etcd ") || !strings.Contains(made, "made") {
		t.Errorf("%q", made)
	}
	if want := "left: kubernetes (3 of at most 10 packages compiled), runc\n"; left != want {
		t.Errorf("%q, want %q", left, want)
	}
	if rest := kubernetes.rest.String(); rest != "go: downloading x v1\n# k8s.io/api\n" {
		t.Errorf("kept %q", rest)
	}
}
