package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weft-network/weft/pkg/install/programs"
	"github.com/weft-network/weft/test/lab/tools"
)

const productNamespace = "weft-system"

// ovnConfigMap holds the addresses of OVN's databases and, because there is no kube-proxy, of the API server.
var ovnConfigMap = `apiVersion: v1
kind: Namespace
metadata:
  name: ` + productNamespace + `
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: weft-ovn
  namespace: ` + productNamespace + `
data:
  nb: ` + Northbound + `
  sb: ` + SouthboundReader + `
  ovnRemote: ` + Southbound + `
  kubernetesServiceHost: 172.30.0.10
  kubernetesServicePort: "6443"
`

// apiServerConfigMap is the only configuration that a bare cluster's administrator provides.
const apiServerConfigMap = `apiVersion: v1
kind: Namespace
metadata:
  name: ` + productNamespace + `
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: weft-apiserver
  namespace: ` + productNamespace + `
data:
  host: 172.30.0.10
  port: "6443"
`

// applyProduct installs the product as its users do, and then creates a ClusterNetwork. The manifests are in the folder of a
// release; if it is empty, in the source.
func (c *Cluster) applyProduct(ctx context.Context, bare bool, release string) error {
	source, err := tools.SourceRoot()
	if err != nil {
		return err
	}
	manifests := filepath.Join(source, "config", "default")
	if _, err := os.Stat(manifests); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no product manifests in this source tree; use --without-weft", manifests)
	}
	before, product := apiServerConfigMap, []string{"apply", "-f", filepath.Join(source, "dist", "install.yaml")}
	if !bare {
		secrets, err := c.tlsSecrets()
		if err != nil {
			return err
		}
		before, product = ovnConfigMap+secrets, []string{"apply", "-k", manifests}
	}
	if release != "" {
		product = []string{"apply", "-f", filepath.Join(release, map[bool]string{true: "install.yaml", false: "weft.yaml"}[bare])}
	}
	if err := c.Apply(ctx, before); err != nil {
		return err
	}
	for _, args := range [][]string{
		product,
		{"wait", "--for=condition=Established", "--timeout=60s", "crd/clusternetworks.network.weft.dev"},
		{"apply", "-f", filepath.Join(source, "test", "lab", "manifests", "clusternetwork.yaml")},
	} {
		if _, err := c.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// Install applies the product to a running lab without it, and creates a ClusterNetwork.
func (c *Cluster) Install(ctx context.Context) error {
	s, err := c.loadState()
	if err != nil {
		return err
	}
	return c.applyProduct(ctx, s.Bare, "")
}

// LoadRelease builds the product as another version and imports its image on the nodes. If change is not nil, it
// changes what the image reports of its programs.
func (c *Cluster) LoadRelease(ctx context.Context, version string, change func(programs.Set)) (ref string, err error) {
	nodes, err := c.Nodes()
	if err != nil {
		return "", err
	}
	all, err := productPrograms()
	if err != nil {
		return "", err
	}
	ref = productRepository + version
	archive, err := c.buildImage(ctx, ref, all, change)
	if err != nil {
		return "", err
	}
	return ref, c.importImage(ctx, nodes, archive)
}

// LoadProduct rebuilds the product's image, imports it on the nodes and replaces the product's pods, except the pods
// of Open vSwitch in a bare lab: without them a node would lose the connection that delivers new pods.
func (c *Cluster) LoadProduct(ctx context.Context) error {
	nodes, err := c.Nodes()
	if err != nil {
		return err
	}
	all, err := productPrograms()
	if err != nil {
		return err
	}
	archive, err := c.buildImage(ctx, ProductRef, all, nil)
	if err != nil {
		return err
	}
	if err := c.importImage(ctx, nodes, archive); err != nil {
		return err
	}
	if err := c.Install(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"-n", productNamespace, "delete", "pods", "-l", "app.kubernetes.io/component!=ovs", "--wait=true"},
		{"-n", productNamespace, "rollout", "status", "--timeout=120s", "deployment/weft-operator"},
		{"-n", productNamespace, "wait", fmt.Sprintf("--for=jsonpath={.status.numberReady}=%d", len(nodes)),
			"--timeout=120s", "daemonset/weft-agent"},
	} {
		if _, err := c.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
