package sketch

import (
	"crypto/sha256"
	_ "embed" // the script and the style of the page
	"encoding/base64"
	"strings"
)

// ZoomScript is the ES module that moves and enlarges a picture. The page of "kubectl weft ui" uses it too.
//
//go:embed web/zoom.js
var ZoomScript string

// PictureStyle gives the pictures their colours, light and dark. The page of "kubectl weft ui" uses it too.
//
//go:embed web/picture.css
var PictureStyle string

//go:embed web/page.html
var pageText string

// HTML renders a graph as one page that refers to nothing outside. The page has the SVG, a search, and keys that move
// and enlarge it. Its content security policy allows the page's own script and style by their hashes, and nothing else.
func (g Graph) HTML() string {
	script := ZoomScript + "\nstart();\n"
	return strings.NewReplacer(
		"{{policy}}", "default-src 'none'; style-src "+hashSource(PictureStyle)+"; script-src "+hashSource(script)+
			"; base-uri 'none'; form-action 'none'",
		"{{style}}", PictureStyle, "{{script}}", script, "{{picture}}", g.SVG()).Replace(pageText)
}

// hashSource is the source of a content security policy that allows an inline text.
func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
