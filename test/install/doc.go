// Package install has the tests of dist/install.yaml: nodes with kubelet and containerd alone, on which the product makes all of the network.
package install
