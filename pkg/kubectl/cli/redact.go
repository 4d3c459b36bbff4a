package cli

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const redacted = "REDACTED"

// secrets match secrets in texts. Their groups match the text before and after the secret, which stays.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`),
	regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*`), // a JSON web token
	regexp.MustCompile(`(?i)(\bbearer\s+)[\w.~+/=-]{8,}`),
	regexp.MustCompile(`(?i)(["']?\b[\w-]*(?:password|passwd|secret|token|api[_-]?key|client-key-data)["']?\s*[:=]\s*)` +
		`(?:"[^"\n]+"|'[^'\n]+'|[^\s,;"'{}]+)`),
	regexp.MustCompile(`(\w+://[^\s/:@]+:)[^\s/@]+(@)`), // the password in a URL
}

// redact replaces secrets in a text.
func redact(text []byte) []byte {
	for _, secret := range secrets {
		text = secret.ReplaceAll(text, []byte("${1}"+redacted+"${2}"))
	}
	return text
}

// sensitive reports whether an environment variable may hold a secret, judging by its name.
func sensitive(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"password", "passwd", "secret", "token", "key", "credential"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// strip removes irrelevant fields and possibly secret values from an object.
func strip(o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	stripValues(o.Object)
}

// stripValues redacts environment variables anywhere in a value.
func stripValues(value any) {
	switch value := value.(type) {
	case map[string]any:
		name, named := value["name"].(string)
		if _, has := value["value"].(string); has && named && sensitive(name) {
			value["value"] = redacted
		}
		for _, inner := range value {
			stripValues(inner)
		}
	case []any:
		for _, inner := range value {
			stripValues(inner)
		}
	}
}
