"""Readers of annotations in foreign formats (COCO JSON, Pascal VOC, CityPersons), and the packing of what they read."""
