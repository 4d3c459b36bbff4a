package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"

	"github.com/weft-network/weft/pkg/launch"
	"github.com/weft-network/weft/pkg/pki"
)

// identityCommand keeps the key pair of this node's chassis: it asks the operator for one by a CertificateSigningRequest, and again before it
// ends. The key never leaves the node.
func identityCommand(args []string) error {
	var node, dir string
	var lifetime time.Duration
	flags := flag.NewFlagSet("weft-ovn identity", flag.ContinueOnError)
	flags.StringVar(&node, "node-name", os.Getenv("NODE_NAME"), "name of this Node, which is the chassis' (environment NODE_NAME)")
	flags.StringVar(&dir, "identity-dir", launch.IdentityDir, "folder of the key pair")
	flags.DurationVar(&lifetime, "lifetime", pki.LeafValidity, "how long a certificate shall be good, at least 10m; a new one is asked for when a fifth is left, or somewhat before")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if node == "" {
		return errors.New("--node-name is required")
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	store, err := certificate.NewFileStore(launch.IdentityPair, dir, dir, "", "")
	if err != nil {
		return err
	}
	manager, err := certificate.NewManager(&certificate.Config{
		Name:                         "chassis " + node,
		ClientsetFn:                  func(*tls.Certificate) (kubernetes.Interface, error) { return kubernetes.NewForConfig(config) },
		SignerName:                   pki.ChassisSigner,
		Template:                     &x509.CertificateRequest{Subject: pkix.Name{CommonName: node}},
		RequestedCertificateLifetime: &lifetime,
		Usages:                       pki.ChassisUsages(),
		CertificateStore:             store,
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	manager.Start()
	defer manager.Stop()
	<-ctx.Done()
	return nil
}
