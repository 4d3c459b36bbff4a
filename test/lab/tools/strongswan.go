package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// strongSwanPackages are strongSwan's IKE daemon, and the package with its vici plugin.
var strongSwanPackages = []string{"strongswan-charon", "strongswan-swanctl", "coreutils", "dash"}

// StrongSwan is the root of a file tree with strongSwan, in which charon is /usr/lib/ipsec/charon. Its plugins are found only in that
// place, so it must run in this root.
func (c Cache) StrongSwan() string { return filepath.Join(c.Dir, "strongswan", "root") }

// MakeStrongSwan downloads strongSwan.
func (c Cache) MakeStrongSwan(ctx context.Context) (built bool, err error) {
	return c.once("strongswan", ovnSuite()+" strongswan\n", filepath.Join(c.StrongSwan(), "usr/lib/ipsec/charon"), func() error {
		debs, err := c.fetch(ctx, "apt/strongswan", ovnSuite(), strongSwanPackages)
		if err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Dir(c.StrongSwan())); err != nil {
			return err
		}
		return errors.Join(unpack(ctx, debs, c.StrongSwan()), c.mergeUsr())
	})
}

// mergeUsr makes the links of Debian's base-files, through which programs find their loader.
func (c Cache) mergeUsr() (err error) {
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		err = errors.Join(err, os.Symlink("usr/"+name, filepath.Join(c.StrongSwan(), name)))
	}
	return err
}
