package release

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push writes the image of a release in folder to the registry that its manifests name, or to another repository. It logs in as
// "docker login" has recorded.
func Push(ctx context.Context, folder, to string) (pushed string, err error) {
	text, err := os.ReadFile(filepath.Join(folder, imageFile))
	if err != nil {
		return "", err
	}
	tag, digest, _ := strings.Cut(strings.TrimSpace(string(text)), "@")
	ref, err := name.NewTag(tag, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Join(folder, imageFile), err)
	}
	if to != "" {
		if err := validRepository(to); err != nil {
			return "", err
		}
		if ref, err = name.NewTag(to+":"+ref.TagStr(), name.StrictValidation); err != nil {
			return "", err
		}
	}
	index, err := readIndex(filepath.Join(folder, "image"), digest)
	if err != nil {
		return "", err
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("push %s: %w", ref, err)
	}
	return ref.String() + "@" + digest, nil
}

// readIndex reads the index with a digest from a layout.
func readIndex(folder, digest string) (v1.ImageIndex, error) {
	all, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	hash, err := v1.NewHash(digest)
	if err != nil {
		return nil, fmt.Errorf("the digest of the image: %w", err)
	}
	return all.ImageIndex(hash)
}

// Sign signs the checksums of a release with a private key (ECDSA, PKCS #8 or SEC 1, in PEM). The signature is that of openssl and of
// "cosign verify-blob", in Base64.
func Sign(folder, keyFile string) error {
	key, err := readKey(keyFile)
	if err != nil {
		return fmt.Errorf("key %s: %w", keyFile, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if err != nil {
		return err
	}
	digest := sha256.Sum256(text)
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	encoded := base64.StdEncoding.EncodeToString(signature) + "\n"
	return errors.Join(os.WriteFile(filepath.Join(folder, sumsFile+".sig"), []byte(encoded), 0o644),
		os.WriteFile(filepath.Join(folder, "weft.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644))
}

func readKey(file string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "EC PRIVATE KEY":
			return x509.ParseECPrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			if ours, ok := key.(*ecdsa.PrivateKey); ok {
				return ours, nil
			}
			return nil, fmt.Errorf("it is of type %T, want ECDSA", key)
		}
	}
	return nil, errors.New("no private key in PEM")
}
