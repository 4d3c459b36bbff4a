package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layer compresses a tree. The archive lies in the folder until the layer is written.
func layer(t Tree, at time.Time, folder string) (v1.Layer, error) {
	file, err := os.CreateTemp(folder, "layer-*.tar")
	if err != nil {
		return nil, err
	}
	if err := t.write(file, at); err != nil {
		file.Close()
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return os.Open(file.Name()) }, tarball.WithMediaType(types.OCILayer))
}

// makeImage returns an image of the layers.
func (r *Release) makeImage(architecture string, debian, weft v1.Layer) (v1.Image, error) {
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: debian, MediaType: types.OCILayer, History: r.history("the packages of config/image/packages")},
		mutate.Addendum{Layer: weft, MediaType: types.OCILayer, History: r.history("Weft " + r.Version)})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = architecture, "linux", v1.Time{Time: r.Time}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/weft"}, WorkingDir: "/", Labels: r.annotations(),
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}
	return mutate.ConfigFile(image, config)
}

func (r *Release) history(by string) v1.History {
	return v1.History{Created: v1.Time{Time: r.Time}, CreatedBy: by}
}

// annotations describe the image to registries and scanners (OCI image specification).
func (r *Release) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title": "Weft", "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.version": r.Version, "org.opencontainers.image.revision": r.Revision,
		"org.opencontainers.image.source":  "https://github.com/weft-network/weft",
		"org.opencontainers.image.created": r.Time.UTC().Format(time.RFC3339),
	}
}

// writeIndex writes the images as an OCI layout into folder, and returns the index' digest.
func (r *Release) writeIndex(images map[string]v1.Image, folder string) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range r.Architectures {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: images[architecture],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}})
	}
	annotated, ok := mutate.Annotations(index, r.annotations()).(v1.ImageIndex)
	if !ok {
		return v1.Hash{}, fmt.Errorf("the annotated index is of type %T", annotated)
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	name := map[string]string{"org.opencontainers.image.ref.name": r.Version, "io.containerd.image.name": r.Image + ":" + r.Version}
	if err := path.AppendIndex(annotated, layout.WithAnnotations(name)); err != nil {
		return v1.Hash{}, err
	}
	return annotated.Digest()
}

// debianTree returns the tree of the packages for an architecture.
func (r *Release) debianTree(ctx context.Context, architecture string) (Tree, []Package, error) {
	debs, err := r.download(ctx, architecture)
	if err != nil {
		return nil, nil, err
	}
	tree := Tree{}
	var packages []Package
	for _, deb := range debs {
		if name, _, _ := strings.Cut(filepath.Base(deb), "_"); r.omits(name) {
			continue
		}
		p, err := tree.addPackage(ctx, deb)
		if err != nil {
			return nil, nil, err
		}
		packages = append(packages, p)
	}
	// What the packages' scripts would make.
	for _, name := range []string{"passwd", "group"} {
		master, ok := tree["usr/share/base-passwd/"+name+".master"]
		if !ok {
			return nil, nil, fmt.Errorf("base-passwd has no %s.master", name)
		}
		tree.addFile("etc/"+name, 0o644, master.Body, "base-passwd")
	}
	tree.addLink("usr/sbin/ovs-vswitchd", "../lib/openvswitch-switch/ovs-vswitchd", "openvswitch-switch") // update-alternatives
	// base-files brings these as folders.
	if err := errors.Join(tree.replaceFolder("var/run", "/run"), tree.replaceFolder("var/lock", "/run/lock")); err != nil {
		return nil, nil, err
	}
	return tree, packages, tree.check(architecture)
}
