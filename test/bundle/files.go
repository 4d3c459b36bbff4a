package bundle

import (
	"fmt"
	"io/fs"
	"strings"
)

// Where Files reads from; paths are below the root of the source.
const (
	installFile = "dist/install.yaml"
	rulesFile   = "config/monitoring/rules.yaml"
	baseFile    = "config/manifests/weft.clusterserviceversion.yaml"
	iconFile    = "config/manifests/icon.svg"
	samplesDir  = "config/samples"
)

// ManifestsDir has what OLM applies, and no file that Files does not make.
const ManifestsDir = "bundle/manifests"

// Files makes all files, by their paths below the root of the source.
func Files(source fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, part := range []func(fs.FS, map[string][]byte) error{addRules, addManifests, addMetadata} {
		if err := part(source, files); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// parse reads a file; the error names it.
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

// addManifests adds the ClusterServiceVersion and, each in a file of its own, the objects that OLM applies as they are.
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
