// nomad-hcl checks a file for Nomad and prints it as JSON. It checks syntax and format with the HCL
// library that Nomad uses, and blocks and arguments with the structs of Nomad's API client. go.mod pins both.
//
//	nomad-hcl job|volume|agent FILE [NAME=VALUE]...    values of a job's variables
//
// A block is an object with its arguments, its labels in "labels", and a list for each kind of block in it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/hashicorp/nomad/api"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// The top-level blocks of each kind of file. Nomad's API has no struct for an agent's configuration.
type jobFile struct {
	Variables []any      `hcl:"variable,block"`
	Jobs      []*api.Job `hcl:"job,block"`
}

type volumeFile struct {
	api.CSIVolume
	Type string `hcl:"type"`
}

var kinds = map[string]reflect.Type{
	"job":    reflect.TypeOf(jobFile{}),
	"volume": reflect.TypeOf(volumeFile{}),
	"agent":  nil,
}

// fields returns the allowed names in a block, and their Go types.
func fields(t reflect.Type) map[string]reflect.Type {
	names := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			for name, inner := range fields(field.Type) {
				names[name] = inner
			}
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("hcl"), ",")
		if name == "" {
			name = strings.ToLower(field.Name)
		}
		names[name] = field.Type
	}
	return names
}

// element returns the element type of a pointer, a list or a map of blocks.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

// isFree tells whether a block may have any content: a task driver's config, parameters, meta.
func isFree(t reflect.Type) bool { return t == nil || t.Kind() != reflect.Struct }

func problem(at hcl.Range, words string, arguments ...any) error {
	return fmt.Errorf("%s: %s", at, fmt.Sprintf(words, arguments...))
}

func checkBody(body *hclsyntax.Body, t reflect.Type) error {
	if isFree(t) {
		return nil
	}
	names := fields(t)
	for name, attribute := range body.Attributes {
		field, known := names[name]
		if !known {
			return problem(attribute.NameRange, "Nomad knows no argument %q in %s", name, t.Name())
		}
		if element(field).Kind() == reflect.Struct {
			return problem(attribute.NameRange, "%q in %s is a block, without '='", name, t.Name())
		}
	}
	for _, block := range body.Blocks {
		field, known := names[block.Type]
		if !known {
			return problem(block.TypeRange, "Nomad knows no block %q in %s", block.Type, t.Name())
		}
		if field.Kind() != reflect.Map && element(field).Kind() != reflect.Struct && element(field).Kind() != reflect.Interface {
			return problem(block.TypeRange, "%q in %s is an argument, with '='", block.Type, t.Name())
		}
		if err := checkBody(block.Body, element(field)); err != nil {
			return err
		}
	}
	return nil
}

// functions are the functions of Nomad that the files call (jobspec2/functions.go).
var functions = map[string]function.Function{"trimprefix": stdlib.TrimPrefixFunc}

// variables returns the context of expressions. Variables that Nomad fills in on the node stay unchanged.
func variables(body *hclsyntax.Body, given map[string]string) (*hcl.EvalContext, error) {
	values := map[string]cty.Value{}
	for _, block := range body.Blocks {
		if block.Type != "variable" {
			continue
		}
		name := block.Labels[0]
		if value, ok := given[name]; ok {
			values[name] = cty.StringVal(value)
		} else if standard, ok := block.Body.Attributes["default"]; ok {
			value, said := standard.Expr.Value(nil)
			if said.HasErrors() {
				return nil, said
			}
			values[name] = value
		}
		delete(given, name)
	}
	for name := range given {
		return nil, fmt.Errorf("there is no variable %q", name)
	}
	onNode := cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("${node.unique.name}")})
	return &hcl.EvalContext{Variables: map[string]cty.Value{
		"var":  cty.ObjectVal(values),
		"node": cty.ObjectVal(map[string]cty.Value{"unique": onNode}),
	}, Functions: functions}, nil
}

func say(body *hclsyntax.Body, context *hcl.EvalContext) (map[string]any, error) {
	said := map[string]any{}
	for name, attribute := range body.Attributes {
		value, problems := attribute.Expr.Value(context)
		if problems.HasErrors() {
			return nil, problems
		}
		said[name] = ctyjson.SimpleJSONValue{Value: value}
	}
	for _, block := range body.Blocks {
		if block.Type == "variable" {
			continue
		}
		inner, err := say(block.Body, context)
		if err != nil {
			return nil, err
		}
		if len(block.Labels) > 0 {
			inner["labels"] = block.Labels
		}
		list, _ := said[block.Type].([]any)
		said[block.Type] = append(list, inner)
	}
	return said, nil
}

func checkFormat(path string, text []byte) error {
	lines := bytes.Split(text, []byte("\n"))
	for i, line := range bytes.Split(hclwrite.Format(text), []byte("\n")) {
		if i >= len(lines) || !bytes.Equal(line, lines[i]) {
			return fmt.Errorf("%s:%d: `nomad fmt` would write: %s", path, i+1, line)
		}
	}
	return nil
}

func run(kind string, path string, given map[string]string) error {
	top, known := kinds[kind]
	if !known {
		return fmt.Errorf("unknown kind %q: use job, volume or agent", kind)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, problems := hclsyntax.ParseConfig(text, path, hcl.InitialPos)
	if problems.HasErrors() {
		return problems
	}
	if err := checkFormat(path, text); err != nil {
		return err
	}
	body := file.Body.(*hclsyntax.Body)
	if err := checkBody(body, top); err != nil {
		return err
	}
	context, err := variables(body, given)
	if err != nil {
		return err
	}
	said, err := say(body, context)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: nomad-hcl job|volume|agent FILE [NAME=VALUE]...")
		os.Exit(2)
	}
	given := map[string]string{}
	for _, word := range os.Args[3:] {
		name, value, _ := strings.Cut(word, "=")
		given[name] = value
	}
	if err := run(os.Args[1], os.Args[2], given); err != nil {
		fmt.Fprintln(os.Stderr, "nomad-hcl:", err)
		os.Exit(1)
	}
}
