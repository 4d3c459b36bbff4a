package ui

import (
	_ "embed"
	"testing"
)

// checks is a script whose value lists what is wrong with the page for people who use a screen reader or see little.
//
//go:embed testdata/accessible.js
var checks string

// Every view has names for its controls, headings in order, valid references and roles, and enough contrast, in light
// and dark.
func TestEveryViewIsAccessible(t *testing.T) {
	p, _ := opened(t)
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		for _, view := range views {
			p.show(view.path, view.title)
			p.await(view.ready)
			p.await("document.getAnimations().length === 0")
			for _, wrong := range eval[[]string](p, checks) {
				t.Errorf("%s, %s: %s", view.name, scheme, wrong)
			}
		}
	}
}

// The checks find what they are for.
func TestChecksFindMistakes(t *testing.T) {
	p, _ := opened(t)
	p.await("document.querySelector('.headline')")
	for mistake, want := range map[string]string{
		"main.append(Object.assign(document.createElement('input'), {className: 'bad'}))":                             "input.bad has no name",
		"main.append(document.createElement('button'))":                                                               "button has no name",
		"main.append(Object.assign(document.createElement('h4'), {textContent: 'x'}))":                                "h4 comes after h2",
		"main.append(Object.assign(document.createElement('p'), {id: 'main'}))":                                       "the id main is there twice",
		"(e => { e.setAttribute('role', 'grit'); main.append(e); })(document.createElement('p'))":                     "p has the unknown role grit",
		"(e => { e.textContent = 'faint'; e.style.color = '#bbb'; main.append(e); })(document.createElement('p'))":    "p has contrast",
		"(e => { e.setAttribute('aria-labelledby', 'nowhere'); main.append(e); })(document.createElement('section'))": "section refers to nowhere",
		"(e => { e.setAttribute('role', 'gridcell'); main.append(e); })(document.createElement('p'))":                 "p is a gridcell outside of row",
	} {
		eval[bool](p, "(main => { "+mistake+"; return true; })(document.getElementById('main'))")
		found := false
		for _, wrong := range eval[[]string](p, checks) {
			found = found || len(wrong) >= len(want) && wrong[:len(want)] == want
		}
		if !found {
			t.Errorf("%s is not found", want)
		}
		eval[bool](p, "(document.getElementById('main').lastElementChild.remove(), true)")
	}
}
