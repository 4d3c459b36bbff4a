package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The manifest for krew has what krew requires: a version and checksums that make plugin fills in, a short line, and
// an archive of the release for each platform.
func TestKrewManifest(t *testing.T) {
	text, err := os.ReadFile("../../../config/krew/weft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	filled := strings.ReplaceAll(string(text), "VERSION", "v1.2.3")
	filled = regexp.MustCompile("SHA256_[a-z]+_[a-z0-9]+").ReplaceAllString(filled, strings.Repeat("a", 64))
	var manifest struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description string
			Platforms                                        []struct {
				Selector         struct{ MatchLabels struct{ OS, Arch string } }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.UnmarshalStrict([]byte(filled), &manifest); err != nil {
		t.Fatal(err)
	}
	spec := manifest.Spec
	if manifest.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || manifest.Kind != "Plugin" ||
		manifest.Metadata.Name != "weft" || spec.Version != "v1.2.3" || spec.Description == "" ||
		spec.ShortDescription == "" || len(spec.ShortDescription) > 50 || !strings.HasPrefix(spec.Homepage, "https://") {
		t.Errorf("%+v", manifest)
	}
	if len(spec.Platforms) != 6 {
		t.Errorf("%d platforms, want those of make release", len(spec.Platforms))
	}
	for _, p := range spec.Platforms {
		of := p.Selector.MatchLabels
		archive, program := ".tar.gz", "kubectl-weft"
		if of.OS == "windows" {
			archive, program = ".zip", "kubectl-weft.exe"
		}
		want := fmt.Sprintf("%s/releases/download/v1.2.3/kubectl-weft_%s_%s%s", spec.Homepage, of.OS, of.Arch, archive)
		if p.URI != want || p.Bin != program || !regexp.MustCompile("^[0-9a-f]{64}$").MatchString(p.SHA256) {
			t.Errorf("%+v, want the archive %s", p, want)
		}
	}
}
