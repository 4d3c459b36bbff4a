// Package docs checks that the links between the repository's pages resolve, that the developers' index and the page of the
// tests are complete, and that `make help` is true.
package docs

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

// blob is the prefix of links to this repository's own files on its public site.
const blob = "https://github.com/weft-network/weft/blob/main/"

var (
	inline     = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	reference  = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?`)
	explicit   = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)
	heading    = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*\s*$`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	// pagePath is the path of a page in a comment, a message or a manifest.
	pagePath = regexp.MustCompile(`\bdocs/[\w/.-]+\.md\b`)
)

// files returns the slash paths, below the repository's root, of the text files that people or generators write.
func files(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			hidden := strings.HasPrefix(name, ".") && name != ".ci"
			if relative != "." && (hidden || strings.HasPrefix(name, "_") || name == "testdata" || relative == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		isText := slices.Contains([]string{".md", ".go", ".yaml", ".yml", ".sh", ".txt"}, filepath.Ext(name))
		if isText || slices.Contains([]string{"Makefile", "Dockerfile", "PROJECT", "run"}, name) {
			found = append(found, filepath.ToSlash(relative))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// link is a relative link of a page, with the line where it stands.
type link struct {
	line   int
	target string
}

// page holds what links need of a Markdown file: its own relative links, and the anchors that others can name.
type page struct {
	links   []link
	anchors map[string]bool
}

// parse reads a Markdown file. Fenced code has neither links nor headings, and code spans have no links.
func parse(text string) page {
	p := page{anchors: map[string]bool{}}
	fenced, seen, number := "", map[string]int{}, 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		if fence := fenceOf(trimmed); fence != "" && (fenced == "" || fence == fenced) {
			if fenced == "" {
				fenced = fence
			} else {
				fenced = ""
			}
			continue
		}
		if fenced != "" {
			continue
		}
		if match := heading.FindStringSubmatch(line); match != nil {
			anchor := slug(match[1])
			if n := seen[anchor]; n > 0 {
				p.anchors[fmt.Sprintf("%s-%d", anchor, n)] = true
			} else {
				p.anchors[anchor] = true
			}
			seen[anchor]++
		}
		for _, match := range explicit.FindAllStringSubmatch(line, -1) {
			p.anchors[match[1]] = true
		}
		plain := codeSpan.ReplaceAllString(line, "")
		matches := inline.FindAllStringSubmatch(plain, -1)
		if match := reference.FindStringSubmatch(plain); match != nil {
			matches = append(matches, match)
		}
		for _, match := range matches {
			if target := match[1]; !strings.Contains(target, "://") && !strings.HasPrefix(target, "mailto:") {
				p.links = append(p.links, link{number, target})
			} else if own, ok := strings.CutPrefix(target, blob); ok {
				p.links = append(p.links, link{number, "/" + own})
			}
		}
	}
	return p
}

// fenceOf returns the marker of a line that begins or ends fenced code, or "".
func fenceOf(line string) string {
	for _, fence := range []string{"```", "~~~"} {
		if strings.HasPrefix(line, fence) {
			return fence
		}
	}
	return ""
}

// slug returns the anchor that GitHub gives a heading: in lower case, with hyphens for spaces, and without anything but
// letters, digits, hyphens and underscores.
func slug(title string) string {
	title = linkText.ReplaceAllString(title, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// broken returns what is wrong with the link of a page, or "". exists reports whether a slash path below the root is a file
// or a folder.
func broken(from, target string, pages map[string]page, exists func(string) bool) string {
	file, anchor, _ := strings.Cut(target, "#")
	file, err := url.PathUnescape(file)
	if err != nil {
		return err.Error()
	}
	switch {
	case file == "":
		file = from
	case strings.HasPrefix(file, "/"):
		file = path.Clean(strings.TrimPrefix(file, "/"))
	default:
		file = path.Join(path.Dir(from), file)
	}
	if strings.HasPrefix(file, "../") || !exists(file) {
		return "there is no " + file
	}
	if anchor == "" {
		return ""
	}
	p, ok := pages[file]
	if !ok {
		return file + " is no page, so it has no #" + anchor
	}
	if !p.anchors[anchor] {
		return file + " has no heading #" + anchor
	}
	return ""
}

func TestEveryRelativeLinkResolves(t *testing.T) {
	pages := map[string]page{}
	for _, file := range files(t) {
		if path.Ext(file) == ".md" {
			pages[file] = parse(read(t, file))
		}
	}
	exists := func(file string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(file)))
		return err == nil
	}
	links := 0
	for file, p := range pages {
		for _, l := range p.links {
			links++
			if wrong := broken(file, l.target, pages, exists); wrong != "" {
				t.Errorf("%s:%d: %s: %s", file, l.line, l.target, wrong)
			}
		}
	}
	if links == 0 {
		t.Error("no page has a relative link; the test reads the wrong folder")
	}
}

// Comments, messages and manifests name pages by their path from the repository's root.
func TestEveryNamedPageExists(t *testing.T) {
	for _, file := range files(t) {
		if strings.HasPrefix(file, "test/docs/") {
			continue // it has made-up paths
		}
		number := 0
		for line := range strings.Lines(read(t, file)) {
			number++
			if path.Ext(file) == ".md" {
				line = linkTarget.ReplaceAllString(line, "]()") // checked by the test above
			}
			for _, at := range pagePath.FindAllStringIndex(line, -1) {
				before := line[:at[0]]
				foreign := strings.HasSuffix(before, "/") && !strings.HasSuffix(before, blob) && !strings.HasSuffix(before, "../")
				if name := line[at[0]:at[1]]; !foreign {
					if _, err := os.Stat(filepath.Join(root, name)); err != nil {
						t.Errorf("%s:%d names %s, which does not exist", file, number, name)
					}
				}
			}
		}
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	pages := map[string]page{
		"docs/a.md": parse("# A page\n## Who's `there`?\n## Twice\n## Twice\n<a id=\"here\"></a>\n" +
			"```\n# not a heading [no](no.md)\n```\n`[no](no.md)`\n"),
		"docs/dev/b.md": parse("[x](../a.md#twice-1) and [y](https://example.org/z.md)\n[r]: ../a.md\n" +
			"[own](" + blob + "docs/a.md#here)\n"),
	}
	if n := len(pages["docs/a.md"].links); n != 0 {
		t.Errorf("code has %d links", n)
	}
	if n := len(pages["docs/dev/b.md"].links); n != 3 {
		t.Errorf("%d links of b.md, want 3", n)
	}
	exists := func(file string) bool { return pages[file].anchors != nil || file == "docs" || file == "main.go" }
	for target, want := range map[string]bool{
		"../a.md": true, "../a.md#a-page": true, "../a.md#whos-there": true, "../a.md#twice": true, "../a.md#twice-1": true,
		"../a.md#here": true, "..": true, "../../main.go": true, "/docs/a.md": true,
		"../a.md#twice-2": false, "../a.md#not-a-heading-no": false, "a.md": false,
		"../../main.go#L1": false, "#gone": false, "../../../x": false,
	} {
		if wrong := broken("docs/dev/b.md", target, pages, exists); (wrong == "") != want {
			t.Errorf("%s: %q", target, wrong)
		}
	}
}

// The first column of a table of the developers' index has paths of the tree, and no folder of the root is absent.
func TestTheIndexNamesPathsOfTheTree(t *testing.T) {
	_, text, ok := strings.Cut(read(t, "docs/dev/README.md"), "\n## From a path to its page\n")
	if !ok {
		t.Fatal("docs/dev/README.md has no table of paths")
	}
	tops := map[string]bool{"docs": true}
	for line := range strings.Lines(text) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, name := range codeSpan.FindAllString(first, -1) {
			name = strings.Trim(name, "`")
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("docs/dev/README.md names %s, which does not exist", name)
			}
			top, _, _ := strings.Cut(name, "/")
			tops[top] = true
		}
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		hidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "bin"
		if e.IsDir() && !hidden && !tops[name] {
			t.Errorf("docs/dev/README.md names nothing of %s", name)
		}
	}
}

// A page that no other page links is never found.
func TestEveryPageIsReachable(t *testing.T) {
	pages := map[string]page{}
	for _, file := range files(t) {
		if path.Ext(file) == ".md" {
			pages[file] = parse(read(t, file))
		}
	}
	reached, queue := map[string]bool{"README.md": true}, []string{"README.md"}
	for len(queue) > 0 {
		from := queue[0]
		queue = queue[1:]
		for _, l := range pages[from].links {
			file, _, _ := strings.Cut(l.target, "#")
			to := path.Join(path.Dir(from), file)
			if _, ok := pages[to]; ok && !reached[to] {
				reached[to], queue = true, append(queue, to)
			}
		}
	}
	for file := range pages {
		if !reached[file] {
			t.Errorf("no link leads from README.md to %s", file)
		}
	}
}
