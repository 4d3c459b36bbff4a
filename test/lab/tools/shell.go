package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// shellPackages are what Kubernetes' tests call in pods, by sh and by name: sh, nc, curl, wget, dig, getent, ip, seq, test, and the rest that is in
// every image. BusyBox will not do: its sh takes its own nc, which lacks -v and -t.
var shellPackages = []string{"bash", "dash", "coreutils", "grep", "sed", "procps", "findutils", "hostname", "curl", "wget", "bind9-dnsutils", "netcat-openbsd", "libc-bin", "iproute2"}

// shellLinks are what packages' scripts and alternatives would make, and where Debian has merged /usr.
var shellLinks = map[string]string{
	"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "usr/bin/sh": "dash", "usr/bin/nc": "nc.openbsd",
}

// shellFiles are read by programs that look up names and users; the two users are what upstream's images have.
var shellFiles = map[string]string{
	"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	"etc/passwd":        "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n",
	"etc/group":         "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
	"root/.profile":     "",
	"uploads/.keep":     "",
}

// Shell is the root of a file tree with a shell and its tools, for images.
func (c Cache) Shell() string { return filepath.Join(c.Dir, "shell", "root") }

// MakeShell downloads it.
func (c Cache) MakeShell(ctx context.Context) (built bool, err error) {
	stamp := ovnSuite + " " + strings.Join(shellPackages, " ") + "\n"
	return c.once("shell", stamp, filepath.Join(c.Shell(), "usr", "bin", "sh"), func() error { return c.fetchShell(ctx) })
}

func (c Cache) fetchShell(ctx context.Context) error {
	debs, err := c.fetch(ctx, "apt/shell", shellPackages)
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
			continue // the packages have it
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
