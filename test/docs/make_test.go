package docs

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// target is a target of the Makefile with its description, which `make help` shows.
type target struct{ name, description, recipe string }

var (
	described = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*?## (.*)\n((?:[\t@].*\n)*)`)
	// named is a variable in a description, such as "N=50" or "SEED=".
	named = regexp.MustCompile(`\b([A-Z][A-Z_]+|[A-Z])=`)
	// used is a variable in a recipe.
	used = regexp.MustCompile(`\$\(([A-Z_]+)\)`)
	// global is a variable that the Makefile defines for all targets.
	global = regexp.MustCompile(`(?m)^(?:export )?([A-Z_]+) [?:]?= `)
	// called is a target in a command of a page.
	called = regexp.MustCompile("(?m)(?:`|^ *)make ([a-z0-9-]+)(?:`|$| +[A-Z#])")
)

func targets(t *testing.T) (all []target) {
	t.Helper()
	for _, match := range described.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		all = append(all, target{match[1], match[2], match[3]})
	}
	if len(all) == 0 {
		t.Fatal("the Makefile describes no target")
	}
	return all
}

func TestThePageOfTheTestsListsEveryTarget(t *testing.T) {
	text := read(t, "docs/dev/testing.md")
	for _, target := range targets(t) {
		if !strings.Contains(text, "\n| `make "+target.name+"` |") {
			t.Errorf("docs/dev/testing.md has no row for make %s", target.name)
		}
	}
}

func TestEveryTargetThatAPageNamesExists(t *testing.T) {
	all, found := targets(t), 0
	for _, file := range files(t) {
		if path.Ext(file) != ".md" {
			continue
		}
		for _, match := range called.FindAllStringSubmatch(read(t, file), -1) {
			found++
			if !slices.ContainsFunc(all, func(o target) bool { return o.name == match[1] }) {
				t.Errorf("%s names make %s, which is no target", file, match[1])
			}
		}
	}
	if found < len(all) {
		t.Errorf("%d targets in pages, want %d or more", found, len(all))
	}
}

// A description names the variables that its recipe uses, and no others.
func TestHelpNamesTheVariables(t *testing.T) {
	var globals []string
	for _, match := range global.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		globals = append(globals, match[1])
	}
	for _, target := range targets(t) {
		for _, match := range named.FindAllStringSubmatch(target.description, -1) {
			if name := match[1]; !strings.Contains(target.recipe, "$("+name+")") {
				t.Errorf("make %s: the description names %s, which the recipe does not use", target.name, name)
			}
		}
		for _, match := range used.FindAllStringSubmatch(target.recipe, -1) {
			if name := match[1]; !slices.Contains(globals, name) && !strings.Contains(target.description, name) &&
				name != "CURDIR" && name != "MAKEFILE_LIST" && name != "MAKE" {
				t.Errorf("make %s: the recipe uses %s, which the description does not name", target.name, name)
			}
		}
	}
}
