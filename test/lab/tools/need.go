package tools

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Envtest returns the folder of the programs for tests with a real API server. If a program is absent, the error
// names the command that builds it.
func (c Cache) Envtest() (dir string, err error) {
	for _, program := range []string{"etcd", "kube-apiserver", "kube-proxy", "kube-scheduler", "kubectl"} {
		if _, err := os.Stat(c.Bin(program)); err != nil {
			return "", fmt.Errorf("%s is absent: run `make tools` first (%w)", program, err)
		}
	}
	return filepath.Dir(c.Bin("etcd")), nil
}

// OnPath reports a program that is not in PATH. The error names the command that installs the program.
func OnPath(program string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%s is absent: run `make tools` first (%w)", program, err)
	}
	return nil
}
