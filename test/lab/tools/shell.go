package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// shellPackages provide the programs that Kubernetes' tests run in pods, through sh and by name: sh, nc, curl, wget,
// dig, getent, ip, seq, test, and the common rest. BusyBox is no replacement: its sh uses its own nc, which lacks -v
// and -t.
var shellPackages = []string{"bash", "dash", "coreutils", "grep", "sed", "procps", "findutils", "hostname", "curl",
	"wget", "bind9-dnsutils", "netcat-openbsd", "libc-bin", "iproute2"}

// shellLinks are the links that packages' scripts and alternatives would create, and the links of Debian's merged
// /usr.
var shellLinks = map[string]string{
	"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "usr/bin/sh": "dash", "usr/bin/nc": "nc.openbsd",
}

// shellFiles are for programs that resolve names and users; the two users are the same as in upstream's images.
var shellFiles = map[string]string{
	"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	"etc/passwd":        "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n",
	"etc/group":         "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
	"root/.profile":     "",
	"uploads/.keep":     "",
}

// Shell is the root of a file tree with a shell and its tools, for images.
func (c Cache) Shell() string { return filepath.Join(c.Dir, "shell", "root") }

// MakeShell downloads the file tree.
func (c Cache) MakeShell(ctx context.Context) (built bool, err error) {
	stamp := ovnSuite() + " " + strings.Join(shellPackages, " ") + "\n"
	return c.once("shell", stamp, filepath.Join(c.Shell(), "usr", "bin", "sh"), func() error { return c.fetchShell(ctx) })
}

func (c Cache) fetchShell(ctx context.Context) error {
	debs, err := c.fetch(ctx, "apt/shell", ovnSuite(), shellPackages)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(c.Shell()); err != nil {
		return err
	}
	if err := unpack(ctx, debs, c.Shell()); err != nil {
		return err
	}
	for path, target := range shellLinks {
		link := filepath.Join(c.Shell(), path)
		if _, err := os.Lstat(link); err == nil {
			continue // a package provides it
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	for path, text := range shellFiles {
		file := filepath.Join(c.Shell(), path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return nil
}
