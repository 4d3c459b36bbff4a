package bundle

import (
	"fmt"
	"io/fs"
	"strings"
)

// Source files; paths are relative to the root of the source.
const (
	installFile = "dist/install.yaml"
	rulesFile   = "config/monitoring/rules.yaml"
	baseFile    = "config/manifests/weft.clusterserviceversion.yaml"
	iconFile    = "config/manifests/icon.svg"
	samplesDir  = "config/samples"
)

// ManifestsDir contains the objects that OLM applies, and only files that Files generates.
const ManifestsDir = "bundle/manifests"

// Files generates all files, by their paths relative to the root of the source.
func Files(source fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, part := range []func(fs.FS, map[string][]byte) error{addRules, addManifests, addMetadata} {
		if err := part(source, files); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// parse reads a file. The error contains its name.
func parse[T any](source fs.FS, path string, read func([]byte) (T, error)) (T, error) {
	text, err := fs.ReadFile(source, path)
	if err != nil {
		return *new(T), err
	}
	value, err := read(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return value, err
}

func addRules(source fs.FS, files map[string][]byte) (err error) {
	files["dist/prometheus-rules.yaml"], err = parse(source, rulesFile, prometheusRules)
	return err
}

// addManifests adds the ClusterServiceVersion and, one file each, the objects that OLM applies unchanged.
func addManifests(source fs.FS, files map[string][]byte) error {
	in, err := parse(source, installFile, readInstall)
	if err != nil {
		return err
	}
	for _, object := range in.asTheyAre() {
		path := fmt.Sprintf("%s/%s.%s.yaml", ManifestsDir, object.GetName(), strings.ToLower(object.GetKind()))
		if files[path], err = marshal(object.Object); err != nil {
			return err
		}
	}
	csv, err := clusterServiceVersion(source, in)
	if err != nil {
		return err
	}
	files[ManifestsDir+"/weft.clusterserviceversion.yaml"], err = marshal(csv)
	return err
}
