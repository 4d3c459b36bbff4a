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

	"github.com/weft-network/weft/pkg/install/launch"
	"github.com/weft-network/weft/pkg/install/pki"
)

// minLifetime is the shortest lifetime that the API server accepts in a CertificateSigningRequest.
const minLifetime = 10 * time.Minute

// identityCommand obtains and renews the key pair of this node's chassis. It requests each certificate from the
// operator by a CertificateSigningRequest, and requests the next before the current one expires. The key never leaves
// the node.
func identityCommand(args []string) error {
	var node, dir, caCert string
	var lifetime time.Duration
	flags := flag.NewFlagSet("weft-ovn identity", flag.ContinueOnError)
	flags.StringVar(&node, "node-name", os.Getenv("NODE_NAME"),
		"name of this Node, which is also the chassis' name (environment NODE_NAME)")
	flags.StringVar(&dir, "identity-dir", launch.IdentityDir, "folder of the key pair")
	flags.StringVar(&caCert, "ca-cert", launch.TLSIn(launch.TLSDir).CACert,
		"certificates of the authorities that sign chassis; a key pair signed by another authority is discarded")
	flags.DurationVar(&lifetime, "lifetime", pki.LeafValidity,
		"lifetime of a certificate, at least 10m; it is renewed when about a fifth is left")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if node == "" {
		return errors.New("--node-name is required")
	}
	if lifetime < minLifetime {
		return fmt.Errorf("--lifetime %s is too short: want at least %s", lifetime, minLifetime)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	current := filepath.Join(dir, launch.IdentityPair+"-current.pem")
	if err := discardForeign(current, caCert); err != nil {
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

// discardForeign removes a pair that none of the authorities signed, such as a pair from before an authority was
// replaced. No peer accepts such a pair, and the certificate manager would keep it until it expires.
func discardForeign(pair, caCert string) error {
	good, err := signed(pair, caCert)
	if err != nil || good {
		return err
	}
	return os.Remove(pair)
}

// signed reports whether the pair is absent or signed by one of the authorities.
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

// untilReplaced returns nil when ctx ends, and an error when the authorities no longer include the signer of the
// pair. The container then restarts and requests a new pair. The watch is on the folder, because kubelet replaces a
// symbolic link in the folder of a Secret.
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
			return errors.Join(err, fmt.Errorf("%s is not signed by an authority in %s; restart to request a new pair", pair, caCert))
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
