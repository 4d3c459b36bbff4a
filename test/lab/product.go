package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weft-network/weft/pkg/programs"
	"github.com/weft-network/weft/test/lab/tools"
)

const productNamespace = "weft-system"

// ovnConfigMap tells the product where OVN's databases and, as there is no kube-proxy, the API server are.
const ovnConfigMap = `apiVersion: v1
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

// apiServerConfigMap is all that a bare cluster's administrator says beforehand.
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

// applyProduct installs the product as its users do, then asks for a network.
func (c *Cluster) applyProduct(ctx context.Context, bare bool) error {
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

// Install applies the product to a lab that is up without it, and asks for a network.
func (c *Cluster) Install(ctx context.Context) error {
	s, err := c.loadState()
	if err != nil {
		return err
	}
	return c.applyProduct(ctx, s.Bare)
}

// LoadRelease builds the product as another version, and gives its image to the nodes; change, if not nil, changes what the image says of its programs.
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

// LoadProduct builds the product's image again, gives it to the nodes and replaces the product's pods, except those of Open vSwitch in a bare
// lab: without them a node would not hear of the new ones.
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
		{"-n", productNamespace, "wait", fmt.Sprintf("--for=jsonpath={.status.numberReady}=%d", len(nodes)), "--timeout=120s", "daemonset/weft-agent"},
	} {
		if _, err := c.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
