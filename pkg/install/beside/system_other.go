//go:build !linux

package beside

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
)

// errLinux is why no program of OVN is run here.
var errLinux = errors.New("programs of OVN run on Linux only: repeat the command there")

func endsWithUs(*exec.Cmd) error { return errLinux }

// Lock is for Linux.
func Lock(*os.File) error { return errLinux }

// Own is for Linux.
func Own(string, fs.FileInfo) error { return errLinux }

func (p *Process) bound(uint64) error { return errLinux }
