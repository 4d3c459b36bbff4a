package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weft-network/weft/pkg/install/chassis"
	"github.com/weft-network/weft/pkg/install/launch"
	"github.com/weft-network/weft/pkg/install/programs"
	"github.com/weft-network/weft/pkg/process/version"
)

// programsCommand writes the list of an image's programs during the image build.
func programsCommand(ctx context.Context, args []string) error {
	var out, root, known string
	flags := flag.NewFlagSet("weft-ovn programs", flag.ContinueOnError)
	flags.StringVar(&out, "out", programs.File, "file to write")
	flags.StringVar(&root, "root", "/", "folder above the paths of the programs and of the databases' schemas")
	flags.StringVar(&known, "versions", "", "list of an image with the same versions, whose programs are not run then")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var versions programs.Set
	if known != "" {
		var err error
		if versions, err = programs.Read(known); err != nil {
			return err
		}
	}
	found, err := describe(ctx, root, versions)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(out), 0o755), os.WriteFile(out, append(text, '\n'), 0o644))
}

// describe describes each program with its default folders, because the folders of a host do not make it a different
// program.
func describe(ctx context.Context, root string, versions programs.Set) (programs.Set, error) {
	usual := places{data: dataDir, tls: launch.TLSDir, identity: launch.IdentityDir}
	found := programs.Set{}
	for name, make := range all {
		program, err := make(usual)
		if err != nil {
			return nil, err
		}
		if found[name], err = program.Describe(ctx, root, versions[name].Version); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	build, err := chassis.Build()
	found["chassis"] = programs.Program{Version: version.String(), Build: build}
	return found, err
}
