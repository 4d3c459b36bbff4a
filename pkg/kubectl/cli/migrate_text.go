package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/kubectl/migrate"
)

// outcomeTitles are the headings of the report's parts.
var outcomeTitles = map[migrate.Outcome]string{
	migrate.Translated: "Translated", migrate.Kept: "Kept as they are", migrate.NotNeeded: "Not needed",
	migrate.Cannot: "No counterpart",
}

// migrationText is the report as text.
func migrationText(r migrate.Report) string {
	var b strings.Builder
	s := r.Source
	fmt.Fprintf(&b, "Network   %s\n", strings.Join(slices.DeleteFunc([]string{s.Network, s.Version, s.Mode}, empty), ", "))
	fmt.Fprintf(&b, "Found by  %s\n", strings.Join(s.Evidence, ", "))
	if len(s.Besides) > 0 {
		fmt.Fprintf(&b, "Besides   %s\n", strings.Join(s.Besides, ", "))
	}
	for _, outcome := range migrate.Outcomes {
		section(&b, r, outcome)
	}
	lines(&b, "Problems", r.Problems)
	lines(&b, "Besides applying the manifests", r.Steps)
	if len(r.Unread) > 0 {
		fmt.Fprintf(&b, "\nNot read\n")
		for _, u := range r.Unread {
			fmt.Fprintf(&b, "  %s: %s\n", u.Resource, u.Message)
		}
		fmt.Fprintf(&b, "  %s\n", grant(r.Unread))
	}
	fmt.Fprintf(&b, "\n%s\n", migrationSummary(r))
	return b.String()
}

func empty(s string) bool { return s == "" }

func lines(b *strings.Builder, title string, texts []string) {
	if len(texts) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, text := range texts {
		fmt.Fprintf(b, "  - %s\n", text)
	}
}

// section prints the objects with an outcome.
func section(b *strings.Builder, r migrate.Report, outcome migrate.Outcome) {
	titled := false
	for _, e := range r.Objects {
		if e.Outcome != outcome {
			continue
		}
		if !titled {
			fmt.Fprintf(b, "\n%s\n", outcomeTitles[outcome])
			titled = true
		}
		fmt.Fprintf(b, "  %s", e.Object)
		if e.Count > 1 {
			fmt.Fprintf(b, " (%d)", e.Count)
		}
		if len(e.To) > 0 {
			fmt.Fprintf(b, " -> %s", strings.Join(e.To, ", "))
		}
		fmt.Fprintln(b)
		if e.Reason != "" {
			fmt.Fprintf(b, "      %s\n", e.Reason)
		}
		for _, line := range fieldLines(e.Fields) {
			fmt.Fprintf(b, "      %s\n", line)
		}
		if e.Next != "" {
			fmt.Fprintf(b, "      next: %s\n", e.Next)
		}
	}
}

// fieldLines lists fields. Fields with the same message share a line.
func fieldLines(fields []migrate.Field) (texts []string) {
	paths := map[string][]string{} // message -> paths
	var order []string
	for _, f := range fields {
		message := f.Message
		if f.Lost {
			message = "LOST: " + message
		}
		if _, ok := paths[message]; !ok {
			order = append(order, message)
		}
		paths[message] = append(paths[message], f.Path)
	}
	for _, message := range order {
		text := message
		if names := strings.Join(slices.DeleteFunc(paths[message], empty), ", "); names != "" {
			text = names + ": " + message
			if rest, lost := strings.CutPrefix(message, "LOST: "); lost {
				text = "LOST " + names + ": " + rest
			}
		}
		texts = append(texts, text)
	}
	return texts
}

// migrationSummary counts the outcomes.
func migrationSummary(r migrate.Report) string {
	count := map[migrate.Outcome]int64{}
	lost := 0
	for _, e := range r.Objects {
		count[e.Outcome] += e.Count
		for _, f := range e.Fields {
			if f.Lost {
				lost++
			}
		}
	}
	text := fmt.Sprintf("%d translated, %d kept, %d not needed, %d without a counterpart; %d fields lost; %d manifests",
		count[migrate.Translated], count[migrate.Kept], count[migrate.NotNeeded], count[migrate.Cannot], lost, len(r.Manifests))
	if len(r.Unread) > 0 {
		text += fmt.Sprintf("; %d resources not read", len(r.Unread))
	}
	return text
}

// grant is the command that grants the rights that are missing.
func grant(unread []migrate.Unread) string {
	var resources []string
	for _, u := range unread {
		if !slices.Contains(resources, u.Resource) {
			resources = append(resources, u.Resource)
		}
	}
	slices.SortFunc(resources, func(a, b string) int { return cmp.Compare(a, b) })
	return "grant the right to read: kubectl create clusterrole weft-migrate --verb=get,list --resource=" + strings.Join(resources, ",") +
		" && kubectl create clusterrolebinding weft-migrate --clusterrole=weft-migrate --user=YOU"
}
