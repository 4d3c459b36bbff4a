package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"

	"github.com/weft-network/weft/pkg/launch"
	"github.com/weft-network/weft/pkg/pki"
)

// identityCommand keeps the key pair of this node's chassis: it asks the operator for one by a CertificateSigningRequest, and again before it
// ends. The key never leaves the node.
func identityCommand(args []string) error {
	var node, dir, caCert string
	var lifetime time.Duration
	flags := flag.NewFlagSet("weft-ovn identity", flag.ContinueOnError)
	flags.StringVar(&node, "node-name", os.Getenv("NODE_NAME"), "name of this Node, which is the chassis' (environment NODE_NAME)")
	flags.StringVar(&dir, "identity-dir", launch.IdentityDir, "folder of the key pair")
	flags.StringVar(&caCert, "ca-cert", launch.TLSIn(launch.TLSDir).CACert, "certificates of the authorities that sign chassis; a pair of another is given up")
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
	current := filepath.Join(dir, launch.IdentityPair+"-current.pem")
	if err := forget(current, caCert); err != nil {
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
	return untilReplaced(ctx, current, caCert)
}

// forget removes a pair that an authority of before has signed: nobody takes it any more, and the manager would keep it until its time ends.
func forget(pair, caCert string) error {
	good, err := signed(pair, caCert)
	if err != nil || good {
		return err
	}
	return os.Remove(pair)
}

// signed tells whether a pair, if there is one, is of one of the authorities.
func signed(pair, caCert string) (bool, error) {
	text, err := os.ReadFile(pair)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	authorities, err := os.ReadFile(caCert)
	if err != nil {
		return false, err
	}
	return pki.SignedBy(text, authorities), nil
}

// untilReplaced returns when ctx ends, or with an error when the authorities are others than the pair's: the next start of the container asks for
// a new one. kubelet replaces a link in the folder of a Secret.
func untilReplaced(ctx context.Context, pair, caCert string) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := watcher.Add(filepath.Dir(caCert)); err != nil {
		return err
	}
	for {
		if good, err := signed(pair, caCert); err != nil || !good {
			return errors.Join(err, fmt.Errorf("%s is of none of the authorities in %s", pair, caCert))
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			return err
		case <-watcher.Events:
		}
	}
}
