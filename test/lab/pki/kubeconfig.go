package pki

import (
	"encoding/base64"
	"fmt"
)

// KubeConfig is a kubeconfig for one user of one cluster.
func KubeConfig(cluster, server string, ca []byte, user Pair) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: user
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: user
current-context: %[1]s
`, cluster, server, b64(ca), b64(user.Cert), b64(user.Key))
}
