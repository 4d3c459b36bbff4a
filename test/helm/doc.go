// Package helm makes the Helm chart of charts/weft from dist/install.yaml. "make generate" runs it.
//
// Without values, the chart renders the objects of dist/install.yaml. Values change the image, the namespace, the API server's
// address and the ClusterNetwork.
//
// CustomResourceDefinitions are in the chart's folder crds, because the chart may contain a ClusterNetwork: Helm needs the
// definitions before it can read the templates' objects. So Helm neither upgrades nor removes them. The ClusterNetwork
// stays when the release is uninstalled, so that its removal is confirmed as always.
package helm
