// Compares csi.proto with the table of CSI 1.12. The test writes the compiled descriptors in the format of the table,
// and the lines must be equal. Tabs separate the columns, and the first column says which columns follow:
//   extend  extendee  name    number  type
//   message name      options
//   field   message   number  name    label  type  oneof:name  options
//   enum    name      options
//   value   enum      number  name    options
//   service name      options
//   rpc     service   name    request response     options           (a side that streams begins with "stream ")

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "csi.pb.h"

namespace mooring {
namespace {

namespace pb = ::google::protobuf;

using Lines = std::vector<std::string>;

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) joined += separator;
    joined += part;
  }
  return joined;
}

std::string Row(const std::vector<std::string>& columns) { return Join(columns, "\t"); }

// The table's word for an option. An option without a word there appears under its full name, as a difference.
std::string OptionWord(const pb::Message& options, const pb::FieldDescriptor& option) {
  const bool is_alpha_mark = option.is_extension() && option.full_name().starts_with("csi.v1.alpha_");
  const bool is_secret_mark = option.full_name() == "csi.v1.csi_secret";
  if (!is_alpha_mark && !is_secret_mark) return option.full_name();
  const std::string word = is_alpha_mark ? "alpha" : "csi_secret";
  return options.GetReflection()->GetBool(options, &option) ? word : word + "=false";
}

// Ordered by the options' numbers, as the table has them.
std::string Options(const pb::Message& options) {
  std::vector<const pb::FieldDescriptor*> set;
  options.GetReflection()->ListFields(options, &set);
  std::vector<std::string> words;
  for (const pb::FieldDescriptor* option : set) words.push_back(OptionWord(options, *option));
  return Join(words, ",");
}

// Relative to csi.v1 within it, absolute (with a leading dot) outside.
std::string Name(const std::string& full_name) {
  constexpr std::string_view kPackage = "csi.v1.";
  return full_name.starts_with(kPackage) ? full_name.substr(kPackage.size()) : "." + full_name;
}

std::string Type(const pb::FieldDescriptor& field) {
  if (field.is_map()) {
    const pb::Descriptor& entry = *field.message_type();
    return "map<" + Type(*entry.map_key()) + "," + Type(*entry.map_value()) + ">";
  }
  if (field.message_type() != nullptr) return Name(field.message_type()->full_name());
  if (field.enum_type() != nullptr) return Name(field.enum_type()->full_name());
  return field.type_name();
}

std::string Label(const pb::FieldDescriptor& field) {
  if (field.is_map()) return "";
  if (field.is_repeated()) return "repeated";
  return field.has_optional_keyword() ? "optional" : "";
}

std::string OneOf(const pb::FieldDescriptor& field) {
  const pb::OneofDescriptor* oneof = field.real_containing_oneof();
  return oneof == nullptr ? "" : "oneof:" + oneof->name();
}

std::string Streaming(bool streams) { return streams ? "stream " : ""; }

void AppendFirstLines(const pb::FileDescriptor& file, Lines& lines) {
  lines.push_back("package " + file.package() + " " + pb::FileDescriptor::SyntaxName(file.syntax()));
  std::string imports = "import";
  for (int i = 0; i < file.dependency_count(); ++i) imports += " " + file.dependency(i)->name();
  lines.push_back(imports);
}

// The table has no column for an extension's label and options, so csi.proto must have none.
void AppendExtension(const pb::FieldDescriptor& field, Lines& lines) {
  std::vector<std::string> columns = {"extend", Name(field.containing_type()->full_name()), Name(field.full_name()),
                                      std::to_string(field.number()), Type(field)};
  for (const std::string& extra : {Label(field), Options(field.options())}) {
    if (!extra.empty()) columns.push_back(extra);
  }
  lines.push_back(Row(columns));
}

void AppendField(const pb::FieldDescriptor& field, Lines& lines) {
  lines.push_back(Row({"field", Name(field.containing_type()->full_name()), std::to_string(field.number()),
                       field.name(), Label(field), Type(field), OneOf(field), Options(field.options())}));
}

void AppendEnum(const pb::EnumDescriptor& type, Lines& lines) {
  const std::string name = Name(type.full_name());
  lines.push_back(Row({"enum", name, Options(type.options())}));
  for (int i = 0; i < type.value_count(); ++i) {
    const pb::EnumValueDescriptor& value = *type.value(i);
    lines.push_back(Row({"value", name, std::to_string(value.number()), value.name(), Options(value.options())}));
  }
}

// The compiler makes a message for the entries of a map. The table has only the map.
void AppendMessage(const pb::Descriptor& message, Lines& lines) {
  if (message.options().map_entry()) return;
  lines.push_back(Row({"message", Name(message.full_name()), Options(message.options())}));
  for (int i = 0; i < message.field_count(); ++i) AppendField(*message.field(i), lines);
  for (int i = 0; i < message.extension_count(); ++i) AppendExtension(*message.extension(i), lines);
  for (int i = 0; i < message.enum_type_count(); ++i) AppendEnum(*message.enum_type(i), lines);
  for (int i = 0; i < message.nested_type_count(); ++i) AppendMessage(*message.nested_type(i), lines);
}

void AppendService(const pb::ServiceDescriptor& service, Lines& lines) {
  const std::string name = Name(service.full_name());
  lines.push_back(Row({"service", name, Options(service.options())}));
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& method = *service.method(i);
    lines.push_back(Row(
        {"rpc", name, method.name(), Streaming(method.client_streaming()) + Name(method.input_type()->full_name()),
         Streaming(method.server_streaming()) + Name(method.output_type()->full_name()), Options(method.options())}));
  }
}

const pb::FileDescriptor& CompiledFile() { return *csi::v1::VolumeCapability::descriptor()->file(); }

Lines CompiledLines() {
  const pb::FileDescriptor& file = CompiledFile();
  Lines lines;
  AppendFirstLines(file, lines);
  for (int i = 0; i < file.extension_count(); ++i) AppendExtension(*file.extension(i), lines);
  for (int i = 0; i < file.message_type_count(); ++i) AppendMessage(*file.message_type(i), lines);
  for (int i = 0; i < file.enum_type_count(); ++i) AppendEnum(*file.enum_type(i), lines);
  for (int i = 0; i < file.service_count(); ++i) AppendService(*file.service(i), lines);
  return lines;
}

Lines TableLines() {
  std::ifstream table(MOORING_CSI_TABLE);
  Lines lines;
  for (std::string line; std::getline(table, line);) lines.push_back(line);
  return lines;
}

// The lines of `lines` that `others` does not have. A line that is there twice must also be there twice in `others`.
Lines Without(Lines lines, Lines others) {
  std::sort(lines.begin(), lines.end());
  std::sort(others.begin(), others.end());
  Lines difference;
  std::set_difference(lines.begin(), lines.end(), others.begin(), others.end(), std::back_inserter(difference));
  return difference;
}

// Makes tabs visible, because an empty column is often the difference.
std::string Diff(const Lines& missing, const Lines& added) {
  std::ostringstream diff;
  for (const std::string& line : missing) diff << "- " << line << "\n";
  for (const std::string& line : added) diff << "+ " << line << "\n";
  std::string visible;
  for (const char c : diff.str()) visible += c == '\t' ? std::string(" | ") : std::string(1, c);
  return visible;
}

TEST(CsiSpecTest, TheTableIsThereAndBeginsWithPackageAndImports) {
  const Lines table = TableLines();
  ASSERT_GE(table.size(), 2U) << "cannot read the table " << MOORING_CSI_TABLE;
  Lines first;
  AppendFirstLines(CompiledFile(), first);
  EXPECT_EQ(first, Lines(table.begin(), table.begin() + 2));
}

TEST(CsiSpecTest, TheCompiledProtoIsTheTableLineByLine) {
  const Lines table = TableLines();
  const Lines compiled = CompiledLines();
  const Lines missing = Without(table, compiled);
  const Lines added = Without(compiled, table);
  EXPECT_TRUE(missing.empty() && added.empty()) << "(- only in " << MOORING_CSI_TABLE << ", + only in csi.proto)\n"
                                                << Diff(missing, added);
}

TEST(CsiSpecTest, OptionsHaveTheirRegisteredNumbers) {
  EXPECT_EQ(csi::v1::kCsiSecretFieldNumber, 1059);
  for (const int number :
       {csi::v1::kAlphaEnumFieldNumber, csi::v1::kAlphaEnumValueFieldNumber, csi::v1::kAlphaFieldFieldNumber,
        csi::v1::kAlphaMessageFieldNumber, csi::v1::kAlphaMethodFieldNumber, csi::v1::kAlphaServiceFieldNumber}) {
    EXPECT_EQ(number, 1060);
  }
}

}  // namespace
}  // namespace mooring
