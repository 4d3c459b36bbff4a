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

// maker is a function that makes an element with a mistake.
const maker = `(tag, {ariaLabelledBy, faint, ...rest} = {}) => {
	const e = Object.assign(document.createElement(tag), rest);
	if (ariaLabelledBy) e.setAttribute('aria-labelledby', ariaLabelledBy);
	if (faint) e.style.color = '#bbb';
	return e;
}`

// The checks find what they are for.
func TestChecksFindMistakes(t *testing.T) {
	p, _ := opened(t)
	p.await("document.querySelector('.headline')")
	for mistake, want := range map[string]string{
		"main.append(make('input', {className: 'bad'}))":           "input.bad has no name",
		"main.append(make('button'))":                              "button has no name",
		"main.append(make('h4', {textContent: 'x'}))":              "h4 comes after h2",
		"main.append(make('p', {id: 'main'}))":                     "the id main is there twice",
		"main.append(make('p', {role: 'grit'}))":                   "p has the unknown role grit",
		"main.append(make('p', {role: 'gridcell'}))":               "p is a gridcell outside of row",
		"main.append(make('section', {ariaLabelledBy: 'none'}))":   "section refers to none",
		"main.append(make('p', {textContent: 'faint', faint: 1}))": "p has contrast",
	} {
		eval[bool](p, "((main, make) => { "+mistake+"; return true; })(document.getElementById('main'), "+maker+")")
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
