package connectivity

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// The elements of JUnit's report that CI systems read.
type (
	suites struct {
		XMLName  xml.Name `xml:"testsuites"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Time     string   `xml:"time,attr"`
		Suites   []suite  `xml:"testsuite"`
	}
	suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Time    string   `xml:"time,attr"`
		Failure *failure `xml:"failure,omitempty"`
	}
	failure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// class prefixes the classes of test cases.
const class = "weft.connectivity."

// JUnit renders the report as JUnit's XML: a test suite for each group, a test case for each cell.
func (r Report) JUnit() ([]byte, error) {
	all := suites{Tests: r.Passed + r.Failed, Failures: r.Failed, Time: fmt.Sprintf("%.3f", r.Seconds)}
	for _, g := range Groups() {
		s := suite{Name: string(g)}
		for _, o := range r.Cells {
			if o.Group == g {
				one := testCase{Class: class + string(g), Name: o.title(), Time: fmt.Sprintf("%.3f", o.Milliseconds/1000)}
				s.add(one, o.Passed, o.Why, o.Diagnosis)
			}
		}
		if len(s.Cases) > 0 {
			all.Suites = append(all.Suites, s)
		}
	}
	flows := suite{Name: "loss"}
	for _, f := range r.Flows {
		name := fmt.Sprintf("%s %s -> %s", f.Family, f.From, f.To)
		flows.add(testCase{Class: class + "loss", Name: name, Time: "0"}, f.Why == "", f.Why, f.Diagnosis)
	}
	if len(flows.Cases) > 0 {
		all.Suites = append(all.Suites, flows)
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	return append([]byte(xml.Header), append(text, '\n')...), err
}

func (s *suite) add(c testCase, passed bool, why string, d Diagnosis) {
	if s.Tests++; !passed {
		s.Failures++
		c.Failure = &failure{Message: why, Text: strings.TrimSpace(d.Verdict + "\n" + d.Command)}
	}
	s.Cases = append(s.Cases, c)
}

// title names the packet of an outcome.
func (o Outcome) title() string {
	title := fmt.Sprintf("%s %s %s -> %s", o.Family, strings.ToUpper(o.Protocol), o.From, o.To)
	if o.Blocked {
		title += " is dropped"
	}
	return title
}
