package release

import (
	"archive/tar"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// bill is a bill of materials, SPDX 2.3 in JSON (https://spdx.github.io/spdx-spec/v2.3/).
type bill struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      billCreation   `json:"creationInfo"`
	Packages      []billPackage  `json:"packages"`
	Files         []billFile     `json:"files"`
	Relationships []billRelation `json:"relationships"`
}

type billCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type billPackage struct {
	ID         string         `json:"SPDXID"`
	Name       string         `json:"name"`
	Version    string         `json:"versionInfo"`
	Supplier   string         `json:"supplier"`
	Download   string         `json:"downloadLocation"`
	Analyzed   bool           `json:"filesAnalyzed"`
	SourceInfo string         `json:"sourceInfo,omitempty"`
	References []billLocation `json:"externalRefs"`
}

type billLocation struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type billFile struct {
	ID        string         `json:"SPDXID"`
	Name      string         `json:"fileName"`
	Checksums []billChecksum `json:"checksums"`
}

type billChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type billRelation struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// writeBill writes the bill of materials of an image: each file with its package, and the modules of each Go program.
func (r *Release) writeBill(architecture string, debian, weft Tree, packages []Package) error {
	b, err := r.bill(architecture, debian, weft, packages)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, "weft_linux_"+architecture+".spdx.json"), append(text, '\n'), 0o644)
}

func (r *Release) bill(architecture string, debian, weft Tree, packages []Package) (bill, error) {
	const document = "SPDXRef-DOCUMENT"
	name := "weft-" + r.Version + "-linux-" + architecture
	b := bill{Version: "SPDX-2.3", License: "CC0-1.0", ID: document, Name: name,
		Namespace: "https://github.com/weft-network/weft/spdx/" + name + "-" + r.Revision,
		Creation:  billCreation{r.Time.UTC().Format(time.RFC3339), []string{"Tool: weft-release"}}}
	own := b.addPackage(billPackage{Name: module, Version: r.Version, Supplier: "Organization: Weft",
		References: located("pkg:golang/" + module + "@" + r.Version)})
	b.Relationships = append(b.Relationships, billRelation{document, "DESCRIBES", own})
	ids := map[string]string{"": own}
	for _, p := range packages {
		ids[p.Name] = b.addPackage(billPackage{Name: p.Name, Version: p.Version, Supplier: "Organization: Debian",
			SourceInfo: "built from the Debian source package " + p.Source,
			References: located(fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=%s", p.Name, p.Version, p.Architecture, suite))})
		b.Relationships = append(b.Relationships, billRelation{own, "DEPENDS_ON", ids[p.Name]})
	}
	modules := map[string]string{}
	for _, tree := range []Tree{debian, weft} {
		for _, path := range slices.Sorted(maps.Keys(tree)) {
			e := tree[path]
			if e.Header.Typeflag != tar.TypeReg {
				continue
			}
			file := b.addFile(path, e.Body)
			b.Relationships = append(b.Relationships, billRelation{ids[e.Package], "CONTAINS", file})
			if info, err := buildinfo.Read(bytes.NewReader(e.Body)); err == nil {
				for _, m := range info.Deps {
					if m.Replace != nil {
						m = m.Replace
					}
					key := m.Path + "@" + m.Version
					if modules[key] == "" {
						modules[key] = b.addPackage(billPackage{Name: m.Path, Version: m.Version, Supplier: "NOASSERTION",
							References: located("pkg:golang/" + key)})
					}
					b.Relationships = append(b.Relationships, billRelation{file, "DEPENDS_ON", modules[key]})
				}
			} else if e.Package == "" && bytes.HasPrefix(e.Body, []byte("\x7fELF")) {
				return b, fmt.Errorf("%s: read its modules: %w", path, err)
			}
		}
	}
	return b, nil
}

func located(purl string) []billLocation { return []billLocation{{"PACKAGE-MANAGER", "purl", purl}} }

// notInID are the characters that an SPDX identifier must not have.
var notInID = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

func (b *bill) addPackage(p billPackage) (id string) {
	p.ID = fmt.Sprintf("SPDXRef-Package-%d-%s", len(b.Packages), notInID.ReplaceAllString(p.Name, "-"))
	p.Download = "NOASSERTION"
	b.Packages = append(b.Packages, p)
	return p.ID
}

func (b *bill) addFile(path string, body []byte) (id string) {
	one, two := sha1.Sum(body), sha256.Sum256(body) // the format requires SHA1
	f := billFile{ID: fmt.Sprint("SPDXRef-File-", len(b.Files)), Name: "./" + path,
		Checksums: []billChecksum{{"SHA1", hex.EncodeToString(one[:])}, {"SHA256", hex.EncodeToString(two[:])}}}
	b.Files = append(b.Files, f)
	return f.ID
}
