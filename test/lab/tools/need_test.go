package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In a fresh checkout, a test's error names in one line the command that builds the missing program.
func TestAbsentProgramsNameTheCommand(t *testing.T) {
	cache := Cache{Dir: t.TempDir()}
	if err := os.Mkdir(filepath.Dir(cache.Bin("etcd")), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"etcd", "kube-apiserver", "kube-proxy", "kube-scheduler", "kubectl"} {
		dir, err := cache.Envtest()
		if err == nil || !strings.Contains(err.Error(), program+" is absent: run `make tools` first") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("without %s: %q, %v", program, dir, err)
		}
		if err := os.WriteFile(cache.Bin(program), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if dir, err := cache.Envtest(); err != nil || dir != filepath.Dir(cache.Bin("etcd")) {
		t.Errorf("%q, %v", dir, err)
	}
}

func TestOnPath(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := OnPath("nft"); err == nil || !strings.Contains(err.Error(), "nft is absent: run `make tools` first") {
		t.Errorf("without nft: %v", err)
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("PATH"), "nft"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := OnPath("nft"); err != nil {
		t.Error(err)
	}
}
