package main

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// Facts that the programs print.
type pluginFacts struct {
	path, client string
	version      string
	driver       string          // the default of --driver-name
	stopTimeout  string          // of --stop-timeout
	variables    map[string]bool // that it reads
}

// Of --help: `  --flag TEXT=default (Env:VARIABLE)`.
var (
	defaultOf  = regexp.MustCompile(`(?m)^\s+(--[a-z-]+) TEXT(?:=| \[)([^\s\]]+)`) // the second form is that of CLI11 2.4
	variableOf = regexp.MustCompile(`\b(?:CSI|MOORING)_[A-Z_]+\b`)
)

func askPlugin(path, client string) (*pluginFacts, error) {
	help, err := exec.Command(path, "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --help: %w", path, err)
	}
	facts := &pluginFacts{path: path, client: client, variables: map[string]bool{}}
	defaults := map[string]string{}
	for _, found := range defaultOf.FindAllStringSubmatch(string(help), -1) {
		defaults[found[1]] = found[2]
	}
	for _, found := range variableOf.FindAllString(string(help), -1) {
		facts.variables[found] = true
	}
	facts.driver = defaults["--driver-name"]
	facts.stopTimeout = defaults["--stop-timeout"]
	said, err := exec.Command(path, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", path, err)
	}
	words := strings.Fields(string(said))
	if len(words) < 2 || facts.driver == "" || facts.stopTimeout == "" {
		return nil, fmt.Errorf("%s: --help and --version are not understood:\n%s%s", path, help, said)
	}
	facts.version = words[1]
	return facts, nil
}

// takes runs the plugin with these arguments and a wrong --log-format, which it checks last. Only that may be
// refused. So the plugin does not start, and all other arguments were accepted.
func (plugin *pluginFacts) takes(arguments, environment []string) error {
	right := func(argument string) bool { return argument == "--log-format=json" || argument == "--log-format=text" }
	command := exec.Command(plugin.path, append(slices.DeleteFunc(slices.Clone(arguments), right), "--log-format=wrong")...)
	command.Env = environment
	said, _ := command.CombinedOutput()
	if strings.Contains(string(said), "--log-format 'wrong'") {
		return nil
	}
	return fmt.Errorf("mooring-plugin does not take %q with %q: %s", arguments, environment, strings.TrimSpace(string(said)))
}

// hasCommand runs a command without a driver. Status 1: the command exists. Status 2: it is unknown.
func (plugin *pluginFacts) hasCommand(words []string) error {
	command := exec.Command(plugin.client, words...)
	command.Env = []string{"CSI_ENDPOINT=/nowhere/csi.sock"}
	said, err := command.CombinedOutput()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == 1 {
		return nil
	}
	return fmt.Errorf("mooring %s: %v: %s", strings.Join(words, " "), err, strings.TrimSpace(string(said)))
}
