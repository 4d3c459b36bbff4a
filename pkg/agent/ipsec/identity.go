package ipsec

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// identity is what a node needs to identify itself and others, in PEM.
type identity struct{ certificate, key, authorities string }

// errNoIdentity means that the node's certificate is not there yet.
var errNoIdentity = errors.New("the node has no certificate yet")

// readIdentity reads the file with the chassis' certificate and key, and the file of the authorities.
func readIdentity(pairFile, authoritiesFile string) (id identity, err error) {
	pair, err := os.ReadFile(pairFile)
	if errors.Is(err, os.ErrNotExist) {
		return id, fmt.Errorf("%w: %s is missing", errNoIdentity, pairFile)
	} else if err != nil {
		return id, err
	}
	authorities, err := os.ReadFile(authoritiesFile)
	if errors.Is(err, os.ErrNotExist) {
		return id, fmt.Errorf("%w: %s is missing", errNoIdentity, authoritiesFile)
	} else if err != nil {
		return id, err
	}
	id.authorities = string(authorities)
	for block, rest := pem.Decode(pair); block != nil; block, rest = pem.Decode(rest) {
		switch text := string(pem.EncodeToMemory(block)); {
		case block.Type == "CERTIFICATE" && id.certificate == "":
			id.certificate = text
		case bytes.HasSuffix([]byte(block.Type), []byte("PRIVATE KEY")):
			id.key = text
		}
	}
	if id.certificate == "" || id.key == "" {
		return id, fmt.Errorf("%w: %s has no certificate or no key", errNoIdentity, pairFile)
	}
	return id, nil
}
