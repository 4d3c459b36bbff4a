package tools

import (
	"context"
	"path/filepath"
)

// NFT returns the path of nft as it is in Weft's image. The nft 1.0.6 of Debian 12 fails on Linux 7.2: it converts the byte order of a
// protocol's single byte, and that kernel refuses such a rule with "Operation not supported".
func (c Cache) NFT() string { return filepath.Join(c.Dir, "nft", "bin", "nft") }

// MakeNFT downloads nft.
func (c Cache) MakeNFT(ctx context.Context) (built bool, err error) {
	return c.once("nft", ovnSuite()+" nftables\n", c.NFT(), func() error { return c.fetchPrograms(ctx, "nft", "nftables", "nft") })
}
