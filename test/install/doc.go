// Package install tests dist/install.yaml on nodes with only kubelet and containerd, where the product brings the
// whole network.
package install
