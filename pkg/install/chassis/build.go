package chassis

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"strings"
)

//go:embed *.go
var sources embed.FS

// Build returns a digest of this package. The databases' pods keep their container while it stays the same, so that a new version of Weft
// does not restart the databases.
func Build() (string, error) {
	files, err := fs.ReadDir(sources, ".") // sorted
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	for _, f := range files {
		if strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		text, err := sources.ReadFile(f.Name())
		if err != nil {
			return "", err
		}
		digest.Write(text)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
